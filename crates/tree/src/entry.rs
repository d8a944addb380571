use std::{ffi::OsStr, ops::ControlFlow};

use crate::{Attr, Error, FileType, NodeId};

/// An entry of a directory: what the directory itself stores of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry<'n> {
    /// The name: not empty, without slash and NUL, and neither `.` nor `..`.
    pub name: &'n OsStr,
    /// The node id.
    pub node: NodeId,
    /// The inode number, as in [`Attr::ino`].
    pub ino: u64,
    /// Its type.
    pub file_type: FileType,
}

/// Receives an entry of a directory and the cursor after it; breaks to end the listing.
pub type AddEntry<'a> = dyn FnMut(DirEntry<'_>, Cursor) -> ControlFlow<()> + 'a;

/// Receives an entry of a directory, the cursor after it, and the attributes of the file, or `None` if they cannot be
/// read; breaks to end the listing.
pub type AddEntryAndAttr<'a> =
    dyn FnMut(DirEntry<'_>, Cursor, Option<&Attr>) -> ControlFlow<()> + 'a;

/// Receives an entry of a damaged directory and the cursor after it, or the reason where entries are missing; breaks to
/// end the listing.
pub type AddReadable<'a> = dyn FnMut(Result<(DirEntry<'_>, Cursor), Error>) -> ControlFlow<()> + 'a;

/// A position between two entries of a directory, as `telldir` returns it. The tree chooses the numbers,
/// and each denotes the same position as long as the tree exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(u64);

impl Cursor {
    /// Before the first entry: 0.
    pub const START: Self = Self(0);

    /// The largest cursor: offsets have 63 bits, and a mount adds `.` and `..` before the entries.
    pub const MAX: Self = Self(1 << 62);

    /// The cursor with this number; `None` if it is larger than [`Self::MAX`].
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}
