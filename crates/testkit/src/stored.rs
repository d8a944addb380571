//! Trees to be stored, and snapshots for comparison.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    fmt,
    fs::{self, File, FileTimes, Metadata},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::{is_root, noise};

/// The stored properties of a file besides its names.
#[derive(Clone, PartialEq, Eq)]
pub enum Stored {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// All its bytes.
        content: Vec<u8>,
        /// Whether its owner may run it.
        executable: bool,
    },
    /// A symbolic link, with its target.
    Symlink(PathBuf),
    /// A device node.
    Device {
        /// Whether it is a block device.
        block: bool,
        /// Its number.
        number: u64,
    },
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory => f.write_str("directory"),
            Self::File {
                content,
                executable,
            } => {
                write!(
                    f,
                    "file of {} bytes, executable: {executable}",
                    content.len()
                )
            }
            Self::Symlink(target) => write!(f, "link to {target:?}"),
            Self::Device { block, number } => write!(f, "device {number:#x}, block: {block}"),
            Self::Socket => f.write_str("socket"),
            Self::Fifo => f.write_str("fifo"),
        }
    }
}

/// Every path below a directory; each with the first path, in the order of their bytes, that is
/// the same file, which is itself but for hard links.
pub type Snapshot = BTreeMap<PathBuf, (PathBuf, Stored)>;

/// Reads everything below `root`.
pub fn snapshot(root: &Path) -> io::Result<Snapshot> {
    let mut paths = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if fs::symlink_metadata(&path)?.is_dir() {
                pending.push(path.clone());
            }
            paths.push(path);
        }
    }
    paths.sort_unstable();
    let mut first_paths = HashMap::new();
    let mut snapshot = Snapshot::new();
    for path in paths {
        let metadata = fs::symlink_metadata(&path)?;
        let name = path.strip_prefix(root).unwrap().to_owned();
        let first = first_paths
            .entry(metadata.ino())
            .or_insert_with(|| name.clone());
        snapshot.insert(name, (first.clone(), stored(&path, &metadata)?));
    }
    Ok(snapshot)
}

fn stored(path: &Path, metadata: &Metadata) -> io::Result<Stored> {
    let file_type = metadata.file_type();
    let number = metadata.rdev();
    Ok(match file_type {
        _ if file_type.is_dir() => Stored::Directory,
        _ if file_type.is_symlink() => Stored::Symlink(fs::read_link(path)?),
        _ if file_type.is_fifo() => Stored::Fifo,
        _ if file_type.is_socket() => Stored::Socket,
        _ if file_type.is_block_device() => Stored::Device {
            block: true,
            number,
        },
        _ if file_type.is_char_device() => Stored::Device {
            block: false,
            number,
        },
        _ => Stored::File {
            content: fs::read(path)?,
            executable: metadata.mode() & 0o111 != 0,
        },
    })
}

/// The two snapshots must be the same.
#[track_caller]
pub fn assert_same(actual: &Snapshot, expected: &Snapshot) {
    for (path, stored) in expected {
        assert_eq!(actual.get(path), Some(stored), "{path:?}");
    }
    let surplus: Vec<_> = actual
        .keys()
        .filter(|path| !expected.contains_key(*path))
        .collect();
    assert!(surplus.is_empty(), "{surplus:?}");
}

/// A tree with everything that can be stored, created in either order; it has device nodes only if root
/// creates it.
pub fn create(root: &Path, reversed: bool) {
    let mut files = contents();
    if reversed {
        files.reverse();
    }
    for (name, content) in files {
        let path = root.join(OsStr::from_bytes(&name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let program = root.join("bin/program");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(root.join("empty/inside")).unwrap();
    fs::hard_link(root.join("data/large"), root.join("data/another name")).unwrap();
    fs::hard_link(root.join("data/large"), root.join("z hard link")).unwrap();
    symlink("data/large", root.join("a link")).unwrap();
    symlink("/nowhere/at all", root.join("dangling")).unwrap();
    symlink("x".repeat(4095), root.join("long target")).unwrap();
    drop(UnixListener::bind(root.join("socket")).unwrap());
    make_node(&root.join("fifo"), FileType::Fifo, (0, 0));
    if is_root() {
        make_node(&root.join("null"), FileType::CharacterDevice, (1, 3));
        make_node(&root.join("disk"), FileType::BlockDevice, (259, 65535));
    }
    set_times(
        root,
        if reversed {
            1_000_000_000
        } else {
            1_500_000_000
        },
    );
}

/// Names and contents of the tree's files.
fn contents() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut files: Vec<(Vec<u8>, Vec<u8>)> = vec![
        (b"bin/program".into(), b"#!/bin/sh\n".into()),
        (b"data/large".into(), noise(1_300_001, 1)),
        (b"empty file".into(), Vec::new()),
        (b"not text \xff\xfe".into(), b"bytes".into()),
        (b"two\nlines".into(), b"name".into()),
        ([b'n'; 127].into(), b"the longest name".into()),
        (b"a/b/c/d/e/f/g/h/deep".into(), b"deep".into()),
    ];
    for size in [1, 1023, 1024, 4095, 4096, 4097, 65_536] {
        files.push((format!("sizes/{size}").into(), noise(size, size as u64)));
    }
    for number in 0..300 {
        let name = format!("many/{number} {}", "m".repeat(number % 90));
        files.push((name.into(), number.to_string().into()));
    }
    files
}

fn make_node(path: &Path, kind: FileType, (major, minor): (u32, u32)) {
    let mode = Mode::from_raw_mode(0o644);
    mknodat(CWD, path, kind, mode, makedev(major, minor)).unwrap();
}

/// Gives every file below `root` some time after `seconds`.
fn set_times(root: &Path, seconds: u64) {
    for (number, (path, (_, stored))) in (0..).zip(snapshot(root).unwrap()) {
        if matches!(stored, Stored::File { .. } | Stored::Directory) {
            let time = UNIX_EPOCH + Duration::from_secs(seconds + number);
            let times = FileTimes::new().set_modified(time).set_accessed(time);
            File::open(root.join(path))
                .unwrap()
                .set_times(times)
                .unwrap();
        }
    }
}

/// Gives everything below `root` to another user and group.
pub fn give_away(root: &Path) {
    for path in snapshot(root).unwrap().into_keys() {
        std::os::unix::fs::lchown(root.join(path), Some(1234), Some(5678)).unwrap();
    }
}
