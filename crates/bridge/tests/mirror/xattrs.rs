//! Extended attributes of all types of files.

use std::os::unix::ffi::OsStrExt;

use rustix::{
    fs::{FileType, OFlags, XattrFlags},
    io::Errno,
};
use verimount_bridge::NodeId;

use crate::support::{Bench, ROOT, is_root, new_file};

#[test]
fn any_kind_of_file_can_have_them() {
    // Only root's may be of links and pipes.
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let (root, new) = (NodeId::ROOT, new_file(0o600));
    // That of `/dev/null`.
    let device = 1 << 8 | 3;
    let mirror = &bench.mirror;
    let (fifo, character) = (FileType::Fifo, FileType::CharacterDevice);
    let (file, open) = mirror
        .create(root, "file".as_ref(), new, OFlags::RDWR)
        .unwrap();
    let nodes = [
        root,
        file.node,
        mirror.mkdir(root, "folder".as_ref(), new).unwrap().node,
        mirror
            .symlink(root, "link".as_ref(), "folder".as_ref(), ROOT)
            .unwrap()
            .node,
        mirror
            .mknod(root, "fifo".as_ref(), new, fifo, device)
            .unwrap()
            .node,
        mirror
            .mknod(root, "null".as_ref(), new, character, device)
            .unwrap()
            .node,
    ];
    let name = "trusted.verimount".as_ref();
    for (number, node) in nodes.into_iter().enumerate() {
        let value = [number as u8; 3];
        let mut found = [0; 64];
        assert_eq!(mirror.getxattr(node, name, &mut found), Err(Errno::NODATA));
        let set = |flags| mirror.setxattr(ROOT, node, name, &value, flags);
        assert_eq!(set(XattrFlags::REPLACE), Err(Errno::NODATA));
        assert_eq!(set(XattrFlags::CREATE), Ok(()));
        assert_eq!(set(XattrFlags::CREATE), Err(Errno::EXIST));
        assert_eq!(mirror.getxattr(node, name, &mut [0; 2]), Err(Errno::RANGE));
        assert_eq!(mirror.getxattr(node, name, &mut found), Ok(3));
        assert_eq!(found[..3], value);
    }
    // Each kept its own: none led to another.
    for (number, node) in nodes.into_iter().enumerate() {
        let mut found = [0; 3];
        mirror.getxattr(node, name, &mut found).unwrap();
        assert_eq!(found, [number as u8; 3]);
        let mut names = [0; 256];
        let len = mirror.listxattr(node, &mut names).unwrap();
        let mut names = names[..len].split(|byte| *byte == 0);
        assert!(names.any(|listed| listed == name.as_bytes()));
        mirror.removexattr(ROOT, node, name).unwrap();
        assert_eq!(mirror.removexattr(ROOT, node, name), Err(Errno::NODATA));
    }
    drop(open);
}
