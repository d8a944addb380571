//! What a directory costs does not depend on how often it is asked for, nor on the machine.

use std::{
    ffi::{OsStr, OsString},
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Barrier},
    thread,
};

use verimount_romfs::{BlockSize, Options, RomfsTree, VolumeName, plan};
use verimount_scan::{Options as ScanOptions, scan_archive};
use verimount_source::Counting;
use verimount_testkit::{TarArchive, flat_romfs, go_on};
use verimount_tree::{Cursor, Error, NodeId, Tree};
use verimount_verity::Checked;

/// How many entries the kernel takes at a time.
const PART: usize = 190;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("file {number}")).collect()
}

/// An image whose root has these files, without an index.
fn flat(names: &[String]) -> Vec<u8> {
    flat_romfs(names.iter().map(String::as_str))
}

/// An image whose root has these files, with an index. It is made of an archive, as a file system takes long to make so
/// many files.
fn indexed(names: &[String]) -> Vec<u8> {
    let files = names.iter();
    let archive = files.fold(TarArchive::default(), |archive, name| archive.file(name));
    let path = Path::new("names.tar");
    let tree = scan_archive(archive.in_file(), path, &ScanOptions::default()).unwrap();
    let options = Options {
        volume_name: VolumeName::default(),
        block_size: BlockSize::MIN,
    };
    let mut image = Vec::new();
    plan(tree, &options)
        .unwrap()
        .write_to(&mut image, &mut go_on)
        .unwrap();
    image
}

/// Lists the root as the kernel does, part by part.
fn list_in_parts(tree: &dyn Tree) -> Vec<OsString> {
    let mut names = Vec::new();
    let mut from = Cursor::START;
    loop {
        let begin = names.len();
        tree.list(NodeId::ROOT, from, &mut |entry, next| {
            names.push(entry.name.to_owned());
            from = next;
            if names.len() < begin + PART {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .unwrap();
        if names.len() < begin + PART {
            return names;
        }
    }
}

/// Looks up names that are there and names that are not.
fn look_up_many(tree: &dyn Tree, names: &[String]) {
    for name in names.iter().step_by(100) {
        tree.lookup(NodeId::ROOT, OsStr::new(name)).unwrap();
        let missing = format!("{name} is missing");
        let found = tree.lookup(NodeId::ROOT, OsStr::new(&missing));
        assert!(matches!(found, Err(Error::NotFound)));
    }
}

#[test]
fn a_large_directory_is_read_once() {
    // Without an index, a name takes 32 bytes.
    for (image, names) in [
        (flat as fn(&[String]) -> Vec<u8>, names(120_000)),
        (indexed, names(10_000)),
    ] {
        let image = image(&names);
        let size = image.len() as u64;
        let counted = Arc::new(Counting::new(image));
        let tree = RomfsTree::open(Checked::unverified(counted.clone())).unwrap();
        let listed = list_in_parts(&tree);
        assert_eq!(listed.len(), names.len());
        let mut sorted: Vec<_> = listed.iter().map(|name| name.to_str().unwrap()).collect();
        let mut expected: Vec<_> = names.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        expected.sort_unstable();
        assert!(sorted == expected);
        look_up_many(&tree, &names);
        assert_eq!(list_in_parts(&tree), listed);
        let counts = counted.counts();
        assert!(counts.bytes < size * 5 / 4, "{counts:?} of {size}");
    }
}

#[test]
fn concurrent_readers_share_a_directory() {
    const THREADS: usize = 8;
    let names = names(50_000);
    let image = flat(&names);
    let size = image.len() as u64;
    let counted = Arc::new(Counting::new(image));
    let tree = RomfsTree::open(Checked::unverified(counted.clone())).unwrap();
    let begin = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                begin.wait();
                look_up_many(&tree, &names);
            });
        }
    });
    let counts = counted.counts();
    assert!(counts.bytes < size * 3 / 2, "{counts:?} of {size}");
}
