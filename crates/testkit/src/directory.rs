//! Directories that trees are compared with.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, setxattr};
use verimount_tree::{Error, FileType, NodeId, Tree, walk};

use crate::{
    noise, pattern,
    seen::{content, everything},
};

/// Files of all sizes that matter, many names, links, attributes and holes.
///
/// # Panics
/// If it cannot be made.
pub fn make_tree(root: &Path) {
    let path = |name: &str| root.join(name);
    for folder in ["sizes", "many", "deep/er/and/deeper", "empty"] {
        fs::create_dir_all(path(folder)).unwrap();
    }
    for size in [
        0, 1, 31, 32, 33, 511, 512, 513, 4000, 4031, 4032, 4033, 4064, 4095, 4096, 4097,
    ] {
        fs::write(path(&format!("sizes/{size}")), noise(size, size as u64)).unwrap();
    }
    for size in [8191, 8192, 8193, 65_535, 65_536, 1_000_001] {
        fs::write(path(&format!("sizes/{size}")), pattern(size)).unwrap();
    }
    for number in 0..2000 {
        fs::write(path(&format!("many/{number}")), number.to_string()).unwrap();
    }
    let name = OsStr::from_bytes(b"any \x80\xff\n\t bytes");
    fs::write(root.join("deep").join(name), "name").unwrap();
    fs::write(path(&"n".repeat(250)), "long").unwrap();
    for (number, target) in ["t".repeat(4000).as_str(), "many/1"]
        .into_iter()
        .enumerate()
    {
        symlink(target, path(&format!("link-{number}"))).unwrap();
    }
    fs::hard_link(path("many/7"), path("deep/seven")).unwrap();
    let program = fs::Permissions::from_mode(0o4755);
    fs::set_permissions(path("sizes/1"), program).unwrap();
    let sparse = fs::File::create(path("sparse")).unwrap();
    sparse.set_len(3_000_000).unwrap();
    sparse.write_all_at(&noise(5000, 9), 1 << 20).unwrap();
    for (file, name, len) in [
        ("many/1", "user.own", 100),
        ("many/2", "user.shared", 0),
        ("many/3", "user.shared", 0),
        ("many/4", "user.shared", 0),
        ("many", "user.directory", 3000),
    ] {
        // Not every file system has attributes.
        let _ = setxattr(path(file), name, &noise(len, 4), XattrFlags::empty());
    }
}

/// Compares everything that a tree shows with a directory.
///
/// # Panics
/// If they differ.
pub fn compare(tree: &dyn Tree, root: &Path, times: bool) {
    let mut count = 0;
    walk(tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        let real = root.join(path);
        let metadata = fs::symlink_metadata(&real).unwrap();
        assert_eq!(attr.mode(), metadata.mode(), "{path:?}");
        assert_eq!((attr.uid, attr.gid), (metadata.uid(), metadata.gid()));
        if times {
            let mtime = (attr.mtime.seconds(), i64::from(attr.mtime.nanoseconds()));
            assert_eq!(mtime, (metadata.mtime(), metadata.mtime_nsec()), "{path:?}");
        }
        let expected = match attr.file_type {
            FileType::RegularFile => fs::read(&real).unwrap(),
            FileType::Symlink => fs::read_link(&real)
                .unwrap()
                .into_os_string()
                .as_bytes()
                .to_vec(),
            _ => Vec::new(),
        };
        if !attr.is_directory() {
            assert_eq!(
                (attr.size, attr.nlink),
                (metadata.size(), metadata.nlink() as u32)
            );
        }
        for piece in [1000, 4096, 100_000, 1 << 20] {
            assert!(
                content(tree, attr, piece)? == expected,
                "{path:?} in pieces of {piece}"
            );
        }
        count += 1;
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!(count, count_files(root));
    let xattrs: BTreeMap<_, _> = everything(tree)
        .unwrap()
        .into_iter()
        .map(|(path, seen)| (path, seen.xattrs))
        .collect();
    for (path, found) in xattrs {
        let mut list = vec![0; 1 << 16];
        let len = llistxattr(root.join(&path), &mut list).unwrap_or(0);
        let names = list[..len]
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        let expected = names.map(|name| {
            let mut value = vec![0; 1 << 16];
            let name = OsStr::from_bytes(name);
            let len = lgetxattr(root.join(&path), name, &mut value).unwrap();
            (name.to_owned(), value[..len].to_vec())
        });
        assert_eq!(found, expected.collect(), "{path:?}");
    }
}

fn count_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            if entry.file_type().unwrap().is_dir() {
                1 + count_files(&entry.path())
            } else {
                1
            }
        })
        .sum()
}
