use std::{ffi::OsStr, sync::Arc};

use verimount_romfs::NodeKind as FileKind;
use verimount_source::Scratch;

use crate::Error;

/// Identifies a file, directory or anything else in a [`Tree`]. As in FUSE, 1 is the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inode(pub u64);

impl Inode {
    /// The root directory.
    pub const ROOT: Self = Self(1);
}

/// What is known of a file besides its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Which file it is.
    pub inode: Inode,
    /// Its type.
    pub kind: FileKind,
    /// Permission bits.
    pub permissions: u16,
    /// Length of the content in bytes.
    pub size: u64,
}

impl Attr {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name: any bytes but `/` and NUL.
    pub name: Box<OsStr>,
    /// What the name stands for.
    pub attr: Attr,
}

/// All names of a directory, but `.` and `..`.
#[derive(Debug)]
pub struct Directory {
    entries: Vec<Entry>,
    /// Positions in `entries`, sorted by name.
    by_name: Vec<u32>,
}

impl Directory {
    /// Takes a directory's entries. Their order is kept: it is the one in which reading the files
    /// is cheapest.
    pub fn new(entries: Vec<Entry>) -> Self {
        let mut by_name: Vec<u32> = (0u32..).take(entries.len()).collect();
        by_name.sort_unstable_by(|&a, &b| entries[a as usize].name.cmp(&entries[b as usize].name));
        Self { entries, by_name }
    }

    /// The entries, in the directory's own order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of this name.
    pub fn find(&self, name: &OsStr) -> Option<&Entry> {
        let entry = |position: u32| &self.entries[position as usize];
        self.by_name
            .binary_search_by(|&position| (*entry(position).name).cmp(name))
            .ok()
            .map(|found| entry(self.by_name[found]))
    }

    /// About how much memory this takes, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let names: usize = self.entries.iter().map(|entry| entry.name.len()).sum();
        (names + self.entries.len() * (size_of::<Entry>() + size_of::<u32>())) as u64
    }
}

/// How much a tree holds, for `statfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Size in bytes of what the tree is stored in.
    pub bytes: u64,
    /// The longest possible name in bytes.
    pub name_max: u32,
}

/// A read-only directory tree.
pub trait Tree: Send + Sync {
    /// The attributes of an inode that this tree gave out, or of the root.
    ///
    /// # Errors
    /// Any [`Error`].
    fn attr(&self, inode: Inode) -> Result<Attr, Error>;

    /// All entries of a directory.
    ///
    /// # Errors
    /// Any [`Error`].
    fn directory(&self, inode: Inode) -> Result<Arc<Directory>, Error>;

    /// What `name` stands for in a directory.
    ///
    /// # Errors
    /// Any [`Error`], [`Error::NotFound`] if nothing.
    fn lookup(&self, directory: Inode, name: &OsStr) -> Result<Attr, Error> {
        self.directory(directory)?
            .find(name)
            .map(|entry| entry.attr)
            .ok_or(Error::NotFound)
    }

    /// Up to `len` bytes of a file's or symbolic link's content from `offset` on, in `scratch`:
    /// fewer only where the content ends.
    ///
    /// # Errors
    /// Any [`Error`].
    fn read<'s>(
        &self,
        inode: Inode,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error>;

    /// How much the tree holds.
    fn usage(&self) -> Usage;
}

/// How many of `len` bytes from `offset` on lie inside content of `size` bytes.
pub(crate) fn clamp(offset: u64, len: usize, size: u64) -> usize {
    let rest = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    len.min(rest)
}
