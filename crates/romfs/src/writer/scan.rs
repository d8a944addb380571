//! Reads a directory tree into memory, without its contents.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fmt,
    fs::{File, FileType, Metadata},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, RawDir, major, minor, openat, readlinkat};

use super::{
    Losses, MAX_NAME_LEN, Summary,
    cursor::{Cursor, Found, unreadable},
    inspect::Inspector,
    tree::{Data, FileId, Identity, Item, Place, Tree},
};
use crate::{
    Error, NodeKind, Unstorable, geometry::to_usize, index::MAX_DIRECTORIES, node::MAX_TARGET_LEN,
    reader::MAX_DIRECTORY_ENTRIES, walk::MAX_DEPTH,
};

/// How much of a directory is read at once, in bytes: about a thousand entries.
const BATCH: usize = 32 << 10;

/// Scans the tree at `root`, which may be a symbolic link to a directory.
pub(super) fn scan(root: &Path) -> Result<(Tree, Losses), Error> {
    let start = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let found = Found::new(openat(CWD, root, flags, Mode::empty())?.into())?;
        let scan = Scan {
            tree: Tree {
                root: root.to_owned(),
                directory: found.file.try_clone()?,
                items: Vec::new(),
                summary: Summary::default(),
            },
            cursor: Cursor::new(&found.file)?,
            first_names: HashMap::new(),
            losses: Losses::default(),
            inspector: Inspector::new(),
            buffer: Vec::with_capacity(BATCH),
        };
        io::Result::Ok((scan, found))
    };
    let (mut scan, found) = start().map_err(|source| Error::Tree {
        path: root.to_owned(),
        source,
    })?;
    let number = scan.add(&found, (*b".").into())?;
    scan.descend(number, &found.file)?;
    scan.tree.link();
    Ok((scan.tree, scan.losses))
}

/// A scan under way.
struct Scan {
    tree: Tree,
    /// The directory whose entries are being added.
    cursor: Cursor,
    /// The first item of each inode with several names.
    first_names: HashMap<FileId, usize>,
    losses: Losses,
    inspector: Inspector,
    /// Buffer for `getdents64`.
    buffer: Vec<u8>,
}

impl Scan {
    /// Adds everything below the root.
    fn descend(&mut self, root: usize, directory: &File) -> Result<(), Error> {
        let names = self.sorted_names(root, directory)?;
        let mut levels = vec![(root, names.into_iter())];
        while let Some((parent, names)) = levels.last_mut() {
            let Some(name) = names.next() else {
                levels.pop();
                continue;
            };
            self.cursor.ascend(&self.tree, *parent)?;
            let found = self.cursor.find(&name);
            let found = found.map_err(|error| unreadable(self.path(&name), error))?;
            let number = self.add(&found, name)?;
            if !found.metadata.is_dir() {
                continue;
            }
            if levels.len() == MAX_DEPTH {
                return Err(unstorable(self.tree.path(number), Unstorable::Depth));
            }
            if self.tree.summary.directories > MAX_DIRECTORIES.into() {
                return Err(unstorable(self.tree.path(number), Unstorable::Directories));
            }
            let names = self.sorted_names(number, &found.file)?;
            // A directory without search permission cannot be left through `..`.
            if !names.is_empty() {
                self.cursor.enter(found.file, number);
                levels.push((number, names.into_iter()));
            }
        }
        Ok(())
    }

    /// Adds an entry of the cursor's directory, or the root, and returns its number.
    fn add(&mut self, found: &Found, name: Box<[u8]>) -> Result<usize, Error> {
        if name.len() > MAX_NAME_LEN {
            let reason = Unstorable::NameTooLong(name.len());
            return Err(unstorable(self.path(&name), reason));
        }
        let metadata = &found.metadata;
        let number = self.tree.items.len();
        let kind = kind(metadata).map_err(|reason| unstorable(self.path(&name), reason))?;
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
            self.tree.summary.count(metadata, kind);
            self.note_losses(found, kind.permissions(executable), kind, &name)?;
            self.data(found, kind, &name)?
        };
        self.tree.items.push(Item {
            name,
            kind,
            executable,
            data,
            link_to,
            parent: self.cursor.number(),
            next: None,
            first_child: None,
            place: Place::default(),
        });
        Ok(number)
    }

    /// The earlier item with the same inode as item `number`, if there is one.
    fn earlier_name(&mut self, metadata: &Metadata, number: usize) -> Option<usize> {
        if metadata.is_dir() || metadata.nlink() < 2 {
            return None;
        }
        let id = FileId::of(metadata);
        let first = *self.first_names.entry(id).or_insert(number);
        (first != number).then_some(first)
    }

    /// Records the losses of an entry of the cursor's directory.
    fn note_losses(
        &mut self,
        found: &Found,
        permissions: u16,
        kind: NodeKind,
        name: &[u8],
    ) -> Result<(), Error> {
        let directory = || self.tree.path_inside(self.cursor.number());
        let path = || directory().join(OsStr::from_bytes(name));
        let losses = &mut self.losses;
        let mut lost = |loss, detail: fmt::Arguments<'_>| losses.add(loss, path, detail);
        let inspected = self.inspector.inspect(found, kind, permissions, &mut lost);
        inspected.map_err(|source| Error::Tree {
            path: self.path(name),
            source,
        })
    }

    /// The data of an entry of the cursor's directory.
    fn data(&self, found: &Found, kind: NodeKind, name: &[u8]) -> Result<Data, Error> {
        let reason = match kind {
            NodeKind::Directory => return Ok(Data::Directory(FileId::of(&found.metadata))),
            NodeKind::File => match Identity::of(&found.metadata) {
                Some(identity) => return Ok(Data::File(identity)),
                None => Unstorable::FileTooLarge(found.metadata.len()),
            },
            NodeKind::Symlink => {
                let target = readlinkat(&found.file, c"", Vec::new());
                let target = target.map_err(|errno| unreadable(self.path(name), errno.into()))?;
                let target = target.into_bytes();
                match (1..=to_usize(MAX_TARGET_LEN)).contains(&target.len()) {
                    true => return Ok(Data::Target(target.into())),
                    false => Unstorable::TargetLen(target.len()),
                }
            }
            _ => return Ok(Data::None),
        };
        Err(unstorable(self.path(name), reason))
    }

    /// The names in the directory of an item, sorted by their bytes.
    fn sorted_names(&mut self, number: usize, directory: &File) -> Result<Vec<Box<[u8]>>, Error> {
        let mut names: Vec<Box<[u8]>> = Vec::new();
        let mut entries = RawDir::new(directory, self.buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|errno| unreadable(self.tree.path(number), errno.into()))?;
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => names.push(name.into()),
            }
            if names.len() > MAX_DIRECTORY_ENTRIES {
                return Err(unstorable(
                    self.tree.path(number),
                    Unstorable::DirectoryEntries,
                ));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The path of a name in the cursor's directory.
    fn path(&self, name: &[u8]) -> PathBuf {
        let directory = self.tree.path(self.cursor.number());
        directory.join(OsStr::from_bytes(name))
    }
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

fn unstorable(path: PathBuf, reason: Unstorable) -> Error {
    Error::Unstorable { path, reason }
}
