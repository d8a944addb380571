//! A mirror in a process with a low limit of open files. A test program of its own, as the limit applies to
//! the whole process.

use std::{fs, path::Path, sync::Once};

use rustix::{
    fs::{FileType, OFlags},
    io::{Errno, pread},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use verimount_bridge::{Entry, Mirror, MirrorOptions, Name, NodeId};

const MAX_OPEN: u64 = 512;

/// A directory in memory if possible, where many files are created quickly.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn mirror(path: &Path) -> Mirror {
    static LIMITED: Once = Once::new();
    LIMITED.call_once(|| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let current = Some(MAX_OPEN);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    });
    Mirror::open(path, MirrorOptions::default()).unwrap()
}

/// Lists a directory and everything below it, and opens each file.
fn walk(mirror: &Mirror, directory: NodeId, nodes: &mut Vec<(NodeId, u64)>) {
    let open = mirror.open_directory(directory).unwrap();
    let (mut position, mut entries) = (0, Vec::new());
    loop {
        let before = (position, entries.len());
        let mut add = |listed: Name<'_>, entry: Option<Entry>| {
            position = listed.next;
            entries.extend(entry);
            true
        };
        mirror.list(&open, before.0, true, &mut add).unwrap();
        if position == before.0 {
            break;
        }
    }
    drop(open);
    for entry in entries {
        nodes.push((entry.node, entry.attr.ino));
        if entry.attr.file_type() == FileType::Directory {
            walk(mirror, entry.node, nodes);
        } else {
            mirror.hold_file(entry.node, OFlags::RDONLY).unwrap();
        }
    }
}

#[test]
fn any_number_of_files_can_be_walked_and_found_again() {
    const FOLDERS: usize = 100;
    const FILES: usize = 1000;
    let folder = folder();
    for i in 0..FOLDERS {
        // Each below the other, so that the last is deep down.
        let below: String = (0..=i).map(|i| format!("{i}/")).collect();
        fs::create_dir(folder.path().join(&below)).unwrap();
        for j in 0..FILES {
            fs::write(folder.path().join(&below).join(format!("file{j}")), "").unwrap();
        }
    }
    let mirror = mirror(folder.path());
    let mut nodes = Vec::new();
    walk(&mirror, NodeId::ROOT, &mut nodes);
    assert_eq!(nodes.len(), FOLDERS * (FILES + 1));
    assert_eq!(mirror.remembered(), nodes.len());
    assert!(mirror.held() as u64 <= MAX_OPEN / 4);
    for (node, inode) in &nodes {
        assert_eq!(mirror.getattr(*node).unwrap().ino, *inode);
    }
    for (node, _) in nodes {
        assert!(mirror.forget(node, 1));
    }
    assert_eq!((mirror.remembered(), mirror.held()), (0, 0));
}

/// Uses so many other files that all earlier descriptors are evicted.
fn let_go(mirror: &Mirror) {
    for i in 0..2 * MAX_OPEN {
        let name = format!("other{i}");
        let node = mirror.lookup(NodeId::ROOT, name.as_ref()).unwrap().node;
        drop(mirror.open_file(node, OFlags::RDONLY).unwrap());
    }
}

#[test]
fn moved_files_are_found_or_missing_but_never_confused() {
    let folder = folder();
    let source = folder.path();
    for i in 0..2 * MAX_OPEN {
        fs::write(source.join(format!("other{i}")), "").unwrap();
    }
    for (name, content) in [("one", "first."), ("two", "second")] {
        fs::create_dir(source.join(name)).unwrap();
        fs::write(source.join(name).join("file"), content).unwrap();
    }
    let mirror = mirror(source);
    let nodes = ["one", "two"].map(|name| {
        let directory = mirror.lookup(NodeId::ROOT, name.as_ref()).unwrap().node;
        mirror.lookup(directory, "file".as_ref()).unwrap().node
    });
    // Held once, so that there is a handle of each where there can be.
    for node in nodes {
        drop(mirror.open_file(node, OFlags::RDONLY).unwrap());
    }
    let_go(&mirror);
    fs::rename(source.join("one"), source.join("three")).unwrap();
    fs::rename(source.join("two"), source.join("one")).unwrap();
    fs::rename(source.join("three"), source.join("two")).unwrap();
    let mut found = 0;
    for (node, expected) in nodes.into_iter().zip([b"first.", b"second"]) {
        match mirror.open_file(node, OFlags::RDONLY) {
            Ok(file) => {
                let mut content = [0; 6];
                pread(file.fd().unwrap(), &mut content, 0).unwrap();
                assert_eq!(&content, expected);
                assert_eq!(mirror.getattr(node).unwrap().size, 6);
                found += 1;
            }
            Err(errno) => assert_eq!(errno, Errno::STALE),
        }
    }
    // With handles, both are; without, they are once their directories were looked up again.
    assert!([0, 2].contains(&found), "{found}");
    for name in ["one", "two"] {
        mirror.lookup(NodeId::ROOT, name.as_ref()).unwrap();
    }
    for node in nodes {
        mirror.open_file(node, OFlags::RDONLY).unwrap();
    }
}
