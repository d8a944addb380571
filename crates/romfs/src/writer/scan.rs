//! Reading a directory tree into memory, without its contents.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, FileType, Metadata},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
};

use rustix::fs::{major, minor};

use super::{
    MAX_NAME_LEN, Summary,
    tree::{Data, Identity, Item, Place, Tree},
};
use crate::{
    Error, NodeKind, Unstorable, geometry::to_usize, index::MAX_DIRECTORIES, node::MAX_TARGET_LEN,
    reader::MAX_DIRECTORY_ENTRIES, walk::MAX_DEPTH,
};

/// Scans the tree at `root`, which may be a symbolic link to a directory.
pub(super) fn scan(root: &Path) -> Result<Tree, Error> {
    let metadata = fs::metadata(root).map_err(|source| unreadable(root, source))?;
    let mut scan = Scan {
        tree: Tree {
            root: root.to_owned(),
            items: Vec::new(),
            summary: Summary::default(),
        },
        first_names: HashMap::new(),
    };
    let number = scan.add(root, &metadata, 0, (*b".").into())?;
    scan.descend(number)?;
    scan.tree.link();
    Ok(scan.tree)
}

/// A scan under way.
struct Scan {
    tree: Tree,
    /// The first items of nodes with several names, by device and inode number.
    first_names: HashMap<(u64, u64), usize>,
}

impl Scan {
    /// Adds all that is below the root.
    fn descend(&mut self, root: usize) -> Result<(), Error> {
        let mut path = self.tree.root.clone();
        let mut levels = vec![(root, sorted_names(&path)?.into_iter())];
        while let Some((directory, names)) = levels.last_mut() {
            let Some(name) = names.next() else {
                levels.pop();
                path.pop();
                continue;
            };
            path.push(OsStr::from_bytes(&name));
            let metadata =
                fs::symlink_metadata(&path).map_err(|source| unreadable(&path, source))?;
            let number = self.add(&path, &metadata, *directory, name)?;
            if !metadata.is_dir() {
                path.pop();
                continue;
            }
            if levels.len() == MAX_DEPTH {
                return Err(unstorable(&path, Unstorable::Depth));
            }
            if self.tree.summary.directories > MAX_DIRECTORIES.into() {
                return Err(unstorable(&path, Unstorable::Directories));
            }
            levels.push((number, sorted_names(&path)?.into_iter()));
        }
        Ok(())
    }

    /// Adds one entry and returns its number.
    fn add(
        &mut self,
        path: &Path,
        metadata: &Metadata,
        parent: usize,
        name: Box<[u8]>,
    ) -> Result<usize, Error> {
        if name.len() > MAX_NAME_LEN {
            return Err(unstorable(path, Unstorable::NameTooLong(name.len())));
        }
        let number = self.tree.items.len();
        let kind = kind(metadata).map_err(|reason| unstorable(path, reason))?;
        let executable = match kind {
            NodeKind::Directory => true,
            NodeKind::File => metadata.mode() & 0o111 != 0,
            _ => false,
        };
        let link_to = self.earlier_name(metadata, number);
        let data = if link_to.is_some() {
            self.tree.summary.count_hard_link();
            Data::None
        } else {
            self.tree.summary.count(metadata, kind, executable);
            data(path, metadata, kind)?
        };
        self.tree.items.push(Item {
            name,
            kind,
            executable,
            data,
            link_to,
            parent,
            next: None,
            first_child: None,
            place: Place::default(),
        });
        Ok(number)
    }

    /// The item that is the same node as item `number`, if one has come before.
    fn earlier_name(&mut self, metadata: &Metadata, number: usize) -> Option<usize> {
        if metadata.is_dir() || metadata.nlink() < 2 {
            return None;
        }
        let first = *self
            .first_names
            .entry((metadata.dev(), metadata.ino()))
            .or_insert(number);
        (first != number).then_some(first)
    }
}

/// The names in a directory, sorted by their bytes.
fn sorted_names(path: &Path) -> Result<Vec<Box<[u8]>>, Error> {
    let mut names = fs::read_dir(path)
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.file_name().into_vec().into_boxed_slice()))
                .collect::<io::Result<Vec<_>>>()
        })
        .map_err(|source| unreadable(path, source))?;
    if names.len() > MAX_DIRECTORY_ENTRIES {
        return Err(unstorable(path, Unstorable::DirectoryEntries));
    }
    names.sort_unstable();
    Ok(names)
}

fn kind(metadata: &Metadata) -> Result<NodeKind, Unstorable> {
    let file_type = metadata.file_type();
    Ok(match file_type {
        _ if file_type.is_dir() => NodeKind::Directory,
        _ if file_type.is_file() => NodeKind::File,
        _ if file_type.is_symlink() => NodeKind::Symlink,
        _ if file_type.is_socket() => NodeKind::Socket,
        _ if file_type.is_fifo() => NodeKind::Fifo,
        _ => device(file_type, metadata.rdev())?,
    })
}

fn device(file_type: FileType, number: u64) -> Result<NodeKind, Unstorable> {
    let (large_major, large_minor) = (major(number), minor(number));
    let (Ok(major), Ok(minor)) = (u16::try_from(large_major), u16::try_from(large_minor)) else {
        return Err(Unstorable::DeviceNumber {
            major: large_major,
            minor: large_minor,
        });
    };
    match file_type {
        _ if file_type.is_block_device() => Ok(NodeKind::BlockDevice { major, minor }),
        _ if file_type.is_char_device() => Ok(NodeKind::CharDevice { major, minor }),
        _ => Err(Unstorable::Type),
    }
}

fn data(path: &Path, metadata: &Metadata, kind: NodeKind) -> Result<Data, Error> {
    let too_large = || unstorable(path, Unstorable::FileTooLarge(metadata.len()));
    Ok(match kind {
        NodeKind::File => Data::File(Identity::of(metadata).ok_or_else(too_large)?),
        NodeKind::Symlink => Data::Target(target(path)?),
        _ => Data::None,
    })
}

fn target(path: &Path) -> Result<Box<[u8]>, Error> {
    let target = fs::read_link(path).map_err(|source| unreadable(path, source))?;
    let target = target.into_os_string().into_vec();
    if !(1..=to_usize(MAX_TARGET_LEN)).contains(&target.len()) {
        return Err(unstorable(path, Unstorable::TargetLen(target.len())));
    }
    Ok(target.into())
}

fn unreadable(path: &Path, source: io::Error) -> Error {
    let path = path.to_owned();
    Error::Tree { path, source }
}

fn unstorable(path: &Path, reason: Unstorable) -> Error {
    let path = path.to_owned();
    Error::Unstorable { path, reason }
}
