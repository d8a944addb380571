//! A directory tree as plain data: what romfs stores of one on a disk.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, FileType, Mode, major, makedev, minor, mknodat};

/// Everything below a root, by path. Paths are ordered by the bytes of their components, so this is
/// also walk order.
pub type Tree = BTreeMap<PathBuf, Entry>;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The node.
    pub what: What,
    /// The first path, in order, that leads to the same node: its own unless it is a hard link.
    pub first_name: PathBuf,
}

/// A node as romfs stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// All its bytes.
        contents: Vec<u8>,
        /// Whether anybody may execute it.
        executable: bool,
    },
    /// A symbolic link with its target.
    Symlink(Vec<u8>),
    /// A block device with its major and minor number.
    BlockDevice(u16, u16),
    /// A character device with its major and minor number.
    CharDevice(u16, u16),
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
}

/// Builds a tree from nodes with arbitrary identities.
pub fn tree<Id: Ord>(nodes: BTreeMap<PathBuf, (Id, What)>) -> Tree {
    let mut first_names = BTreeMap::new();
    nodes
        .into_iter()
        .map(|(path, (id, what))| {
            let first_name = first_names.entry(id).or_insert_with(|| path.clone());
            let first_name = first_name.clone();
            (path, Entry { what, first_name })
        })
        .collect()
}

/// The tree in a directory.
pub fn on_disk(root: &Path) -> Tree {
    fn add(root: &Path, below: &Path, nodes: &mut BTreeMap<PathBuf, ((u64, u64), What)>) {
        for entry in fs::read_dir(root.join(below)).unwrap() {
            let path = below.join(entry.unwrap().file_name());
            let metadata = fs::symlink_metadata(root.join(&path)).unwrap();
            let what = what_on_disk(&root.join(&path), &metadata);
            let is_directory = what == What::Directory;
            nodes.insert(path.clone(), ((metadata.dev(), metadata.ino()), what));
            if is_directory {
                add(root, &path, nodes);
            }
        }
    }
    let mut nodes = BTreeMap::new();
    add(root, Path::new(""), &mut nodes);
    tree(nodes)
}

fn what_on_disk(path: &Path, metadata: &fs::Metadata) -> What {
    let device = metadata.rdev();
    let number = |part: u32| u16::try_from(part).unwrap();
    match metadata.file_type() {
        kind if kind.is_dir() => What::Directory,
        kind if kind.is_file() => What::File {
            contents: fs::read(path).unwrap(),
            executable: metadata.mode() & 0o111 != 0,
        },
        kind if kind.is_symlink() => {
            What::Symlink(fs::read_link(path).unwrap().into_os_string().into_vec())
        }
        kind if kind.is_block_device() => {
            What::BlockDevice(number(major(device)), number(minor(device)))
        }
        kind if kind.is_char_device() => {
            What::CharDevice(number(major(device)), number(minor(device)))
        }
        kind if kind.is_socket() => What::Socket,
        kind => {
            assert!(kind.is_fifo());
            What::Fifo
        }
    }
}

/// Creates a tree in an empty directory, with its entries in this order.
pub fn create<'a>(root: &Path, tree: impl Iterator<Item = (&'a PathBuf, &'a Entry)>) {
    let mut made: BTreeMap<&Path, PathBuf> = BTreeMap::new();
    for (path, entry) in tree {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match made.get(&*entry.first_name) {
            Some(earlier) => fs::hard_link(earlier, &path).unwrap(),
            None => {
                create_node(&path, &entry.what);
                made.insert(&entry.first_name, path);
            }
        }
    }
}

fn create_node(path: &Path, what: &What) {
    let special = |kind, device| mknodat(CWD, path, kind, Mode::from(0o644), device).unwrap();
    let number = |major: u16, minor: u16| makedev(major.into(), minor.into());
    match what {
        What::Directory => fs::create_dir_all(path).unwrap(),
        What::File {
            contents,
            executable,
        } => {
            fs::write(path, contents).unwrap();
            let mode = if *executable { 0o755 } else { 0o644 };
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        What::Symlink(target) => {
            std::os::unix::fs::symlink(OsStr::from_bytes(target), path).unwrap();
        }
        What::BlockDevice(major, minor) => special(FileType::BlockDevice, number(*major, *minor)),
        What::CharDevice(major, minor) => {
            special(FileType::CharacterDevice, number(*major, *minor));
        }
        What::Socket => special(FileType::Socket, 0),
        What::Fifo => special(FileType::Fifo, 0),
    }
}

/// Whether devices can be created here.
pub fn can_make_devices() -> bool {
    rustix::process::geteuid().is_root()
}

/// A small tree with one node of every kind, on disk.
pub fn one_of_everything() -> Tree {
    let file = |contents: &[u8], executable| What::File {
        contents: contents.to_vec(),
        executable,
    };
    let mut nodes = vec![
        ("a", What::Directory),
        ("a/empty", What::Directory),
        ("a/program", file(b"#!/bin/sh\n", true)),
        ("b", file(b"first", false)),
        ("b2", file(b"", false)),
        ("large", file(&[7; 3000], false)),
        ("link", What::Symlink(b"a/program".to_vec())),
        ("pipe", What::Fifo),
        ("socket", What::Socket),
        ("z", What::Directory),
        ("z/last", file(b"last", false)),
    ];
    if can_make_devices() {
        nodes.push(("block", What::BlockDevice(8, 1)));
        nodes.push(("char", What::CharDevice(1, 3)));
    }
    let numbered = nodes.into_iter().enumerate();
    let mut nodes: BTreeMap<_, _> = numbered
        .map(|(number, (path, what))| (PathBuf::from(path), (number, what)))
        .collect();
    for (name, first) in [
        ("a/b", "b"),
        ("z/b", "b"),
        ("z/link", "link"),
        ("pipe2", "pipe"),
    ] {
        nodes.insert(name.into(), nodes[Path::new(first)].clone());
    }
    tree(nodes)
}
