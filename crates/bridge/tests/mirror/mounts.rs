//! Mounts below the source are not part of it.

use std::{fs, path::PathBuf};

use rustix::{
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use verimount_bridge::{Entry, Mirror, MirrorOptions, Name, NodeId};

use crate::support::{Bench, as_ordinary_user, is_root};

/// A file system in memory, mounted until this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn on(path: PathBuf) -> Self {
        mount("tmpfs", &path, "tmpfs", MountFlags::empty(), None).unwrap();
        fs::write(path.join("mounted"), "").unwrap();
        Self(path)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).unwrap();
    }
}

/// Root sees the directory under the mount, whether it was mounted before or after.
#[test]
fn root_sees_under_mounts() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    for folder in ["before", "after"] {
        fs::create_dir(bench.source().join(folder)).unwrap();
        fs::write(bench.source().join(folder).join("under"), "").unwrap();
    }
    let _before = Mounted::on(bench.source().join("before"));
    let mirror = Mirror::open(&bench.source(), MirrorOptions::default()).unwrap();
    let _after = Mounted::on(bench.source().join("after"));
    for folder in ["before", "after"] {
        let node = mirror.lookup(NodeId::ROOT, folder.as_ref()).unwrap().node;
        mirror.lookup(node, "under".as_ref()).unwrap();
        let found = mirror.lookup(node, "mounted".as_ref());
        assert_eq!(found, Err(Errno::NOENT));
    }
}

#[test]
fn other_users_get_exdev() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    fs::create_dir(bench.source().join("folder")).unwrap();
    let _mounted = Mounted::on(bench.source().join("folder"));
    as_ordinary_user(|| {
        let mirror = Mirror::open(&bench.source(), MirrorOptions::default()).unwrap();
        let found = mirror.lookup(NodeId::ROOT, "folder".as_ref());
        assert_eq!(found, Err(Errno::XDEV));
        // It is listed, as a name without attributes.
        let directory = mirror.open_directory(NodeId::ROOT).unwrap();
        let mut names = Vec::new();
        let mut add = |listed: Name<'_>, entry: Option<Entry>| {
            assert!(entry.is_none());
            names.push(listed.name.to_owned());
            true
        };
        mirror.list(&directory, 0, true, &mut add).unwrap();
        assert!(names.contains(&"folder".into()));
    });
}
