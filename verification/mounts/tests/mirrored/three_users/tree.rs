//! What a tree contains.

use rustix::fs::{
    FileType, IFlags, StatxFlags, ioctl_getflags, ioctl_setflags, lgetxattr, llistxattr, open,
    statx,
};

use crate::prelude::*;

const STATX_ATTR_IMMUTABLE: u64 = 0x10;
const STATX_ATTR_APPEND: u64 = 0x20;

/// Times before this second were set, and not taken from the clock.
const SET_BEFORE: i64 = 1_000_000_000;

/// What decides access to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) flags: u64,
    pub(super) xattrs: BTreeMap<String, Vec<u8>>,
}

/// One file, under one of its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) access: Access,
    links: u32,
    /// The content or target.
    pub(super) content: Vec<u8>,
    /// The time of change, if it was set.
    time: Option<i64>,
}

impl Facts {
    pub(super) fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.access.mode) == FileType::Directory
    }
}

/// Files by path and inode; the root is at the empty path.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree(BTreeMap<String, (u64, Facts)>);

impl Tree {
    pub(super) fn of(root: &Path) -> Self {
        let mut tree = Self::default();
        tree.add(root, String::new());
        tree
    }

    fn add(&mut self, root: &Path, path: String) {
        let at = root.join(&path);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = statx(CWD, &at, flags, StatxFlags::BASIC_STATS).unwrap();
        let kind = FileType::from_raw_mode(found.stx_mode.into());
        let mut mode = u32::from(found.stx_mode);
        // Only a mark without the group's permission to execute; see docs/semantics/bridge.md.
        if kind == FileType::RegularFile && mode & 0o010 == 0 {
            mode &= !0o2000;
        }
        let content = match kind {
            FileType::RegularFile => fs::read(&at).unwrap(),
            FileType::Symlink => {
                let target = fs::read_link(&at).unwrap();
                target.into_os_string().into_encoded_bytes()
            }
            _ => Vec::new(),
        };
        let kept = STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE;
        let facts = Facts {
            access: Access {
                mode,
                uid: found.stx_uid,
                gid: found.stx_gid,
                flags: found.stx_attributes.bits() & kept,
                xattrs: xattrs(&at),
            },
            links: found.stx_nlink,
            content,
            time: Some(found.stx_mtime.tv_sec).filter(|second| *second < SET_BEFORE),
        };
        self.0.insert(path.clone(), (found.stx_ino, facts));
        if kind == FileType::Directory {
            for entry in fs::read_dir(&at).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                self.add(root, join(&path, &name));
            }
        }
    }

    pub(super) fn inode(&self, path: &str) -> Option<u64> {
        self.0.get(path).map(|(inode, _)| *inode)
    }

    pub(super) fn facts(&self, path: &str) -> Option<&Facts> {
        self.0.get(path).map(|(_, facts)| facts)
    }

    pub(super) fn path_of(&self, inode: u64) -> Option<&str> {
        let found = self.0.iter().find(|(_, (at, _))| *at == inode);
        found.map(|(path, _)| path.as_str())
    }

    /// All names of a file.
    pub(super) fn names(&self, inode: u64) -> Vec<String> {
        let files = self.files().filter(|(_, at, _)| *at == inode);
        files.map(|(path, ..)| path.to_owned()).collect()
    }

    /// All files: path, inode and facts.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, u64, &Facts)> {
        self.0
            .iter()
            .map(|(path, (inode, facts))| (path.as_str(), *inode, facts))
    }

    /// This tree without set-ID bits.
    pub(super) fn without_set_ids(&self) -> Self {
        let mut tree = self.clone();
        for (_, facts) in tree.0.values_mut() {
            facts.access.mode &= !0o6000;
        }
        tree
    }

    /// What differs from another tree, apart from the inodes' numbers.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let paths: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let differ = paths
            .into_iter()
            .filter(|path| self.facts(path) != other.facts(path));
        differ
            .map(|path| {
                format!(
                    "{path:?}: {:?} instead of {:?}",
                    self.facts(path),
                    other.facts(path)
                )
            })
            .collect()
    }
}

/// The path of a name in a directory.
pub(super) fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

/// The directory and the name that a path ends in.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn xattrs(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = Vec::with_capacity(1024);
    match llistxattr(path, rustix::buffer::spare_capacity(&mut names)) {
        Ok(_) | Err(Errno::NOTSUP) => {}
        Err(errno) => panic!("{path:?}: {errno}"),
    }
    let names = names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut value = Vec::with_capacity(1024);
            lgetxattr(path, name, rustix::buffer::spare_capacity(&mut value)).unwrap();
            (String::from_utf8_lossy(name).into_owned(), value)
        })
        .collect()
}

/// Removes a tree, flags or not.
pub(super) fn remove(root: &Path) {
    for (path, _, facts) in Tree::of(root).files() {
        if facts.access.flags != 0 {
            let file = open(
                root.join(path),
                OFlags::RDONLY | OFlags::NONBLOCK,
                Mode::empty(),
            )
            .unwrap();
            let flags = ioctl_getflags(&file).unwrap();
            let changeable = IFlags::APPEND | IFlags::IMMUTABLE;
            ioctl_setflags(&file, flags.difference(changeable)).unwrap();
        }
    }
    fs::remove_dir_all(root).unwrap();
}
