//! The operations that a read-only mirror refuses.

use std::fs;

use rustix::{
    fs::{FallocateFlags, FileType, OFlags, RenameFlags, XattrFlags},
    io::Errno,
};
use verimount_bridge::{MirrorOptions, NodeId, SetAttr};

use crate::support::{Bench, ROOT, as_ordinary_user, new_file};

#[test]
fn nothing_can_be_changed() {
    check();
    // Without the private mount, which is read-only by itself.
    as_ordinary_user(check);
}

fn check() {
    let bench = Bench::with(MirrorOptions { read_only: true });
    fs::write(bench.source().join("file"), "content").unwrap();
    let mirror = &bench.mirror;
    let (root, new) = (NodeId::ROOT, new_file(0o700));
    let node = bench.find("file").unwrap().node;
    let (file, name) = ("file".as_ref(), "new".as_ref());
    let device = 0;
    let open = mirror.open_file(node, OFlags::RDONLY).unwrap();
    let size = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    let refused = [
        mirror.create(root, name, new, OFlags::RDONLY).err(),
        mirror.tmpfile(root, new, OFlags::RDWR).err(),
        mirror.mkdir(root, name, new).err(),
        mirror.mknod(root, name, new, FileType::Fifo, device).err(),
        mirror.symlink(root, name, file, ROOT).err(),
        mirror.link(ROOT, node, root, name).err(),
        mirror.unlink(ROOT, root, file).err(),
        mirror.rmdir(ROOT, root, file).err(),
        mirror
            .rename(ROOT, (root, file), (root, name), RenameFlags::empty())
            .err(),
        mirror.setattr(ROOT, node, &size, None).err(),
        mirror
            .setxattr(ROOT, node, "user.x".as_ref(), b"x", XattrFlags::empty())
            .err(),
        mirror.removexattr(ROOT, node, "user.x".as_ref()).err(),
        mirror.open_file(node, OFlags::WRONLY).err(),
        mirror.open_file(node, OFlags::RDWR).err(),
        mirror.open_file(node, OFlags::RDONLY | OFlags::TRUNC).err(),
        mirror.hold_file(node, OFlags::RDWR).err(),
        mirror.fallocate(&open, FallocateFlags::empty(), 0, 1).err(),
        mirror.copy_range((&open, 0), (&open, 3), 1).err(),
    ];
    for (number, errno) in refused.into_iter().enumerate() {
        assert_eq!(errno, Some(Errno::ROFS), "operation {number}");
    }
    let names = fs::read_dir(bench.source()).unwrap().count();
    assert_eq!((names, mirror.getattr(node).unwrap().size), (1, 7));
}
