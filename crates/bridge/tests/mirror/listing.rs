//! Listing directories.

use std::{collections::BTreeSet, ffi::OsStr, fs, os::unix::fs::MetadataExt};

use rustix::fs::FileType;
use verimount_bridge::{Entry, Name, NodeId, OpenDirectory};

use crate::support::{Bench, ROOT};

/// Lists at most `room` names from a position on; also returns the position that it reached.
fn list(bench: &Bench, directory: &OpenDirectory, from: u64, room: usize) -> (Vec<String>, u64) {
    let (mut names, mut next) = (Vec::new(), from);
    let mut add = |listed: Name<'_>, _: Option<Entry>| {
        if names.len() == room {
            return false;
        }
        names.push(listed.name.to_str().unwrap().to_owned());
        next = listed.next;
        true
    };
    bench.mirror.list(directory, from, false, &mut add).unwrap();
    (names, next)
}

#[test]
fn every_name_is_listed_once_however_little_room_there_is() {
    let bench = Bench::new();
    let mut expected = BTreeSet::from([".".to_owned(), "..".to_owned()]);
    // More than one batch.
    for i in 0..2500 {
        let name = format!("{i:0100}");
        fs::write(bench.source().join(&name), "").unwrap();
        expected.insert(name);
    }
    for room in [1, 7, 400, usize::MAX] {
        let directory = bench.mirror.open_directory(NodeId::ROOT).unwrap();
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let (names, next) = list(&bench, &directory, from, room);
            if names.is_empty() {
                break;
            }
            all.extend(names);
            from = next;
        }
        assert_eq!(all.len(), expected.len());
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

#[test]
fn listing_continues_at_any_position() {
    let bench = Bench::new();
    for i in 0..100 {
        fs::write(bench.source().join(i.to_string()), "").unwrap();
    }
    let directory = bench.mirror.open_directory(NodeId::ROOT).unwrap();
    let (first, middle) = list(&bench, &directory, 0, 50);
    let (rest, end) = list(&bench, &directory, middle, usize::MAX);
    assert_eq!(first.len() + rest.len(), 102);
    assert_eq!(list(&bench, &directory, end, 1), (vec![], end));
    assert_eq!(list(&bench, &directory, middle, usize::MAX).0, rest);
    // A new listing has the new file.
    fs::write(bench.source().join("new"), "").unwrap();
    let (again, _) = list(&bench, &directory, 0, usize::MAX);
    assert!(again.contains(&"new".to_owned()));
    assert_eq!(again.len(), 103);
}

#[test]
fn a_listing_with_attributes_counts_lookups() {
    let bench = Bench::new();
    fs::write(bench.source().join("file"), "content").unwrap();
    fs::create_dir(bench.source().join("folder")).unwrap();
    let directory = bench.mirror.open_directory(NodeId::ROOT).unwrap();
    let mut nodes = Vec::new();
    let mut add = |listed: Name<'_>, entry: Option<Entry>| {
        let is_dot = [".", ".."].map(OsStr::new).contains(&listed.name);
        assert_eq!(entry.is_none(), is_dot);
        if let Some(entry) = entry {
            let found = fs::metadata(bench.source().join(listed.name)).unwrap();
            assert_eq!(entry.attr.ino, found.ino());
            assert_eq!(entry.attr.size, found.size());
            let file_type = FileType::from_raw_mode(listed.mode);
            assert!([entry.attr.file_type(), FileType::Unknown].contains(&file_type));
            nodes.push(entry.node);
        }
        true
    };
    bench.mirror.list(&directory, 0, true, &mut add).unwrap();
    assert_eq!(nodes.len(), 2);
    for node in nodes {
        bench.mirror.getattr(node).unwrap();
        assert!(bench.mirror.forget(node, 1));
    }
    // What there was no room for does not count.
    bench
        .mirror
        .list(&directory, 0, true, &mut |_, _| false)
        .unwrap();
    assert_eq!(bench.mirror.remembered(), 0);
}

#[test]
fn a_directory_that_was_removed_is_empty() {
    let bench = Bench::new();
    fs::create_dir(bench.source().join("folder")).unwrap();
    let node = bench.find("folder").unwrap().node;
    let directory = bench.mirror.open_directory(node).unwrap();
    bench
        .mirror
        .rmdir(ROOT, NodeId::ROOT, "folder".as_ref())
        .unwrap();
    assert_eq!(list(&bench, &directory, 0, 10), (vec![], 0));
}
