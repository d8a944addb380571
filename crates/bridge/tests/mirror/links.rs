//! Nodes: one per file, found by all its names, and forgotten when the kernel forgets them.

use std::fs;

use rustix::{
    fs::{FileType, OFlags, RenameFlags},
    io::Errno,
};
use verimount_bridge::NodeId;

use crate::support::{Bench, ROOT, new_file};

#[test]
fn hard_links_share_a_node() {
    let bench = Bench::new();
    fs::write(bench.source().join("a"), "content").unwrap();
    let a = bench.find("a").unwrap();
    let b = bench
        .mirror
        .link(ROOT, a.node, NodeId::ROOT, "b".as_ref())
        .unwrap();
    assert_eq!(a.node, b.node);
    assert_eq!(b.attr.nlink, 2);
    assert_eq!(bench.find("b").unwrap().node, a.node);
    assert_eq!(bench.find("a").unwrap().attr.ino, b.attr.ino);
    assert_eq!(bench.mirror.remembered(), 1);
}

#[test]
fn forgetting_frees() {
    let bench = Bench::new();
    fs::write(bench.source().join("a"), "").unwrap();
    let node = bench.find("a").unwrap().node;
    bench.find("a").unwrap();
    assert!(!bench.mirror.forget(node, 1));
    bench.mirror.getattr(node).unwrap();
    assert!(bench.mirror.forget(node, 1));
    assert_eq!(bench.mirror.remembered(), 0);
    assert_eq!(bench.mirror.getattr(node), Err(Errno::STALE));
    assert_ne!(bench.find("a").unwrap().node, node);
}

#[test]
fn renamed_files_keep_their_node() {
    let bench = Bench::new();
    for folder in ["one", "two"] {
        fs::create_dir(bench.source().join(folder)).unwrap();
    }
    fs::write(bench.source().join("one/file"), "content").unwrap();
    let [one, two] = ["one", "two"].map(|name| bench.find(name).unwrap().node);
    let file = bench.find("one/file").unwrap().node;
    let rename = |from: (NodeId, &str), to: (NodeId, &str), flags| {
        bench.mirror.rename(
            ROOT,
            (from.0, from.1.as_ref()),
            (to.0, to.1.as_ref()),
            flags,
        )
    };
    let none = RenameFlags::empty();
    rename((one, "file"), (two, "renamed"), none).unwrap();
    assert_eq!(bench.mirror.getattr(file).unwrap().size, 7);
    rename((NodeId::ROOT, "two"), (one, "inner"), none).unwrap();
    assert_eq!(
        bench.mirror.file_paths(file).unwrap()[0].to_str(),
        Some("one/inner/renamed")
    );
    assert_eq!(bench.mirror.getattr(file).unwrap().size, 7);

    let directory = bench
        .mirror
        .mkdir(NodeId::ROOT, "dir".as_ref(), new_file(0o755))
        .unwrap();
    let taken = rename(
        (two, "renamed"),
        (NodeId::ROOT, "dir"),
        RenameFlags::NOREPLACE,
    );
    assert_eq!(taken, Err(Errno::EXIST));
    rename(
        (two, "renamed"),
        (NodeId::ROOT, "dir"),
        RenameFlags::EXCHANGE,
    )
    .unwrap();
    assert_eq!(
        bench.mirror.file_paths(file).unwrap()[0].to_str(),
        Some("dir")
    );
    let attr = bench.mirror.getattr(directory.node).unwrap();
    assert_eq!(attr.file_type(), FileType::Directory);
    assert_eq!(bench.mirror.getattr(file).unwrap().size, 7);
}

/// Whoever moves it, and whatever is where it was: another directory with a name of the same file, or a link to it.
#[test]
fn directories_are_where_they_are_now() {
    let bench = Bench::new();
    let at = |path: &str| bench.source().join(path);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/b/file"), "").unwrap();
    let directory = bench.find("a/b").unwrap().node;
    let file = bench.find("a/b/file").unwrap().node;
    let is_at = |expected: &str| {
        for _ in 0..2 {
            let path = bench.mirror.directory_path(directory).unwrap();
            assert_eq!(path.to_str(), Some(expected));
            let paths = bench.mirror.file_paths(file).unwrap();
            assert_eq!(paths[0], path.join("file"));
        }
    };
    is_at("a/b");
    fs::rename(at("a/b"), at("c")).unwrap();
    fs::create_dir(at("a/b")).unwrap();
    fs::hard_link(at("c/file"), at("a/b/file")).unwrap();
    is_at("c");
    fs::rename(at("c"), at("a/d")).unwrap();
    std::os::unix::fs::symlink("a/d", at("c")).unwrap();
    is_at("a/d");
    fs::rename(at("a"), at("e")).unwrap();
    std::os::unix::fs::symlink("e", at("a")).unwrap();
    is_at("e/d");
    fs::rename(at("e/d"), bench.outside().join("d")).unwrap();
    let found = bench.mirror.directory_path(directory);
    assert_eq!(found, Err(Errno::STALE));
}

#[test]
fn open_files_need_no_name() {
    let bench = Bench::new();
    let name = "file".as_ref();
    let flags = OFlags::RDWR | OFlags::EXCL;
    let (entry, file) = bench
        .mirror
        .create(NodeId::ROOT, name, new_file(0o600), flags)
        .unwrap();
    bench.mirror.unlink(ROOT, NodeId::ROOT, name).unwrap();
    rustix::io::pwrite(file.fd().unwrap(), b"abc", 0).unwrap();
    let attr = bench.mirror.getattr(entry.node).unwrap();
    assert_eq!((attr.size, attr.nlink), (3, 0));
    let again = bench.mirror.open_file(entry.node, OFlags::RDONLY).unwrap();
    drop(file);
    let mut content = [0; 4];
    assert_eq!(
        rustix::io::pread(again.fd().unwrap(), &mut content, 0),
        Ok(3)
    );
    drop(again);
    // A program that has looked it up before may still open it.
    assert_eq!(bench.mirror.getattr(entry.node).unwrap().nlink, 0);
    assert!(bench.mirror.forget(entry.node, 1));
    assert_eq!(bench.mirror.getattr(entry.node), Err(Errno::STALE));
}
