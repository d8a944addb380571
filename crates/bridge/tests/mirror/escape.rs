//! Nothing leads out of the mirrored directory.

use std::{fs, os::unix::fs::symlink};

use rustix::{fs::OFlags, io::Errno};
use verimount_bridge::NodeId;

use crate::support::{Bench, ROOT, new_file};

#[test]
fn names_lead_one_step_down() {
    let bench = Bench::new();
    fs::create_dir(bench.source().join("folder")).unwrap();
    let folder = bench.find("folder").unwrap().node;
    for name in ["..", ".", "../outside", "/etc", "folder/../..", "a\0b"] {
        for parent in [NodeId::ROOT, folder] {
            let name = name.as_ref();
            let (mirror, new) = (&bench.mirror, new_file(0o777));
            assert_eq!(mirror.lookup(parent, name), Err(Errno::INVAL));
            assert_eq!(mirror.mkdir(parent, name, new), Err(Errno::INVAL));
            assert_eq!(mirror.unlink(ROOT, parent, name), Err(Errno::INVAL));
            assert_eq!(mirror.rmdir(ROOT, parent, name), Err(Errno::INVAL));
            let created = mirror.create(parent, name, new, OFlags::RDWR);
            assert_eq!(created.unwrap_err(), Errno::INVAL);
            let moved = mirror.rename(
                ROOT,
                (parent, name),
                (parent, "new".as_ref()),
                rename_flags(),
            );
            assert_eq!(moved, Err(Errno::INVAL));
            assert_eq!(mirror.link(ROOT, folder, parent, name), Err(Errno::INVAL));
        }
    }
}

fn rename_flags() -> rustix::fs::RenameFlags {
    rustix::fs::RenameFlags::empty()
}

#[test]
fn symbolic_links_are_not_followed() {
    let bench = Bench::new();
    fs::write(bench.outside().join("secret"), "secret").unwrap();
    for (name, target) in [("file", "secret"), ("folder", ""), ("missing", "new")] {
        symlink(bench.outside().join(target), bench.source().join(name)).unwrap();
        let link = bench.find(name).unwrap();
        assert_eq!(
            bench.mirror.readlink(link.node).unwrap(),
            bench.outside().join(target)
        );
        assert!(bench.mirror.open_file(link.node, OFlags::RDONLY).is_err());
        assert!(
            bench
                .mirror
                .open_file(link.node, OFlags::RDWR | OFlags::TRUNC)
                .is_err()
        );
        assert!(bench.mirror.open_directory(link.node).is_err());
        assert_eq!(
            bench
                .mirror
                .lookup(link.node, "secret".as_ref())
                .unwrap_err(),
            Errno::NOTDIR
        );
        let created =
            bench
                .mirror
                .create(NodeId::ROOT, name.as_ref(), new_file(0o777), OFlags::RDWR);
        assert_eq!(created.unwrap_err(), Errno::STALE);
    }
    assert_eq!(fs::read(bench.outside().join("secret")).unwrap(), b"secret");
    assert!(!bench.outside().join("new").exists());
}
