use std::{
    fs::{File, Metadata},
    io,
    ops::Range,
    os::unix::fs::{FileTypeExt, MetadataExt},
    sync::Arc,
};

use rustix::fs::{major, minor};
use verimount_source::FileId;
use verimount_tree::{DeviceNumber, FileType, Permissions, Timestamp};

use crate::{EntryId, Owner, XattrSetId};

/// A file, directory or other node, without its names.
#[derive(Debug)]
pub struct Inode {
    /// Its type, and what only this type has.
    pub kind: InodeKind,
    /// Its permissions, with set-id and sticky bits.
    pub permissions: Permissions,
    /// Its owner and group.
    pub owner: Owner,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Its extended attributes.
    pub attributes: XattrSetId,
    /// Number of its names in the tree. There may be more outside.
    pub names: u32,
    /// The first of its names, in walk order.
    pub first_name: EntryId,
}

/// The number of an inode in its tree. They are numbered from 0, by their first names in walk order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InodeId(pub(crate) u32);

/// The type of an inode, and what only this type has.
#[derive(Debug)]
pub enum InodeKind {
    /// A directory. Which one it was, if it was not in an archive.
    Directory(Option<FileId>),
    /// A regular file.
    File(FileData),
    /// A symbolic link with this target, which is not empty.
    Symlink(Box<[u8]>),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A character device.
    CharDevice(DeviceNumber),
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
}

/// The content of a regular file, which is read later.
#[derive(Debug)]
pub struct FileData {
    /// Where it is.
    pub(crate) place: Place,
    /// The ranges that have storage, in order, not empty and apart from each other. All else are
    /// holes. `None` for a file without holes.
    pub stored: Option<Box<[Range<u64>]>>,
}

/// Where the content of a regular file is.
#[derive(Debug)]
pub(crate) enum Place {
    /// In this file, at its path in the tree.
    File(Identity),
    /// In memory: it was added to the tree.
    Added(Arc<[u8]>),
    /// In an archive, from this byte on; the ranges that have storage back to back.
    Archive {
        /// Where it begins.
        at: u64,
        /// Its length in bytes, with holes.
        size: u64,
    },
}

/// Tells whether a file is still what was scanned. Every change of its content or attributes changes
/// the time in it, which cannot be set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    id: FileId,
    size: u64,
    changed: Timestamp,
}

impl InodeId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl InodeKind {
    /// The type alone.
    pub fn file_type(&self) -> FileType {
        match self {
            Self::Directory(_) => FileType::Directory,
            Self::File(_) => FileType::RegularFile,
            Self::Symlink(_) => FileType::Symlink,
            Self::BlockDevice(_) => FileType::BlockDevice,
            Self::CharDevice(_) => FileType::CharDevice,
            Self::Socket => FileType::Socket,
            Self::Fifo => FileType::Fifo,
        }
    }
}

impl FileData {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        match &self.place {
            Place::File(identity) => identity.size,
            Place::Added(content) => content.len() as u64,
            Place::Archive { size, .. } => *size,
        }
    }

    pub(crate) fn is_added(&self) -> bool {
        matches!(self.place, Place::Added(_))
    }

    /// The ranges that have storage, in order; all of it for a file without holes.
    pub fn stored(&self) -> impl Iterator<Item = Range<u64>> {
        let all = Some(0..self.size()).filter(|all| self.stored.is_none() && !all.is_empty());
        let some = self.stored.iter().flat_map(|ranges| ranges.iter().cloned());
        all.into_iter().chain(some)
    }

    /// Bytes that have storage.
    pub fn stored_bytes(&self) -> u64 {
        self.stored().map(|range| range.end - range.start).sum()
    }
}

impl Identity {
    /// The identity of a file with this metadata; `None` if it is not a regular file.
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        metadata.is_file().then(|| Self {
            id: FileId::of(metadata),
            size: metadata.len(),
            changed: Timestamp::from_stat(metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether this is the file, as it was.
    pub(crate) fn is_of(&self, file: &File) -> io::Result<bool> {
        Ok(Self::of(&file.metadata()?).as_ref() == Some(self))
    }
}

/// The kind of special file with this metadata.
pub(crate) fn special(metadata: &Metadata) -> io::Result<InodeKind> {
    let device = DeviceNumber::new(major(metadata.rdev()), minor(metadata.rdev()));
    match metadata.file_type() {
        kind if kind.is_block_device() => Ok(InodeKind::BlockDevice(device)),
        kind if kind.is_char_device() => Ok(InodeKind::CharDevice(device)),
        kind if kind.is_socket() => Ok(InodeKind::Socket),
        kind if kind.is_fifo() => Ok(InodeKind::Fifo),
        _ => Err(io::Error::other("its type is unknown")),
    }
}
