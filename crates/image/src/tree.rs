use std::{ffi::OsStr, ops::ControlFlow};

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

    /// Gives the entries of a directory, all but `.` and `..`, to `add`, from the one at `position`
    /// on, until `add` says that it wants no more. Their order is always the same: the one in which
    /// reading the files is cheapest.
    ///
    /// # Errors
    /// Any [`Error`].
    fn list(
        &self,
        directory: Inode,
        position: u64,
        add: &mut dyn FnMut(&OsStr, &Attr) -> ControlFlow<()>,
    ) -> Result<(), Error>;

    /// What `name` stands for in a directory.
    ///
    /// # Errors
    /// Any [`Error`], [`Error::NotFound`] if nothing.
    fn lookup(&self, directory: Inode, name: &OsStr) -> Result<Attr, Error>;

    /// Up to `len` bytes of a file's content from `offset` on, in `scratch`: fewer only where the
    /// content ends.
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

    /// The target of a symbolic link, in `scratch`: not empty and without NUL.
    ///
    /// # Errors
    /// Any [`Error`].
    fn readlink<'s>(&self, inode: Inode, scratch: &'s mut Scratch) -> Result<&'s [u8], Error>;

    /// How much the tree holds.
    fn usage(&self) -> Usage;
}

/// How many of `len` bytes from `offset` on lie inside content of `size` bytes.
pub(crate) fn clamp(offset: u64, len: usize, size: u64) -> usize {
    let rest = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
    len.min(rest)
}
