//! Operations that users try, with paths relative to a tree.

use rustix::fs::{IFlags, RenameFlags};

use crate::prelude::*;

/// The number of places for open files, which all users share: descriptors can be passed on.
pub(super) const SLOTS: usize = 10;

/// A name: below the tree, or below a directory that is open in this slot.
#[derive(Debug, Clone)]
pub(super) struct At {
    pub(super) directory: Option<usize>,
    pub(super) path: String,
}

/// A file to change.
#[derive(Debug, Clone)]
pub(super) enum Object {
    Name(String),
    Open(usize),
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Mode(u32),
    Owner(Option<u32>, Option<u32>),
    /// To now, which writers may do, or to a second, which only the owner may.
    Times(Option<i64>),
    Length(u64),
    Set(&'static str, Vec<u8>),
    Remove(&'static str),
}

/// A file other than a regular one.
#[derive(Debug, Clone)]
pub(super) enum Made {
    Directory(u32),
    Fifo(u32),
    Link(String),
}

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Open {
        at: At,
        flags: OFlags,
        mode: u32,
        slot: usize,
    },
    /// Through `/proc/self/fd`.
    Reopen {
        from: usize,
        flags: OFlags,
        slot: usize,
    },
    Close(usize),
    Change(Object, Change),
    Write {
        slot: usize,
        offset: u64,
        data: Vec<u8>,
    },
    Allocate {
        slot: usize,
        mode: FallocateFlags,
        offset: u64,
        len: u64,
    },
    /// Stores a byte through a shared mapping.
    Store {
        slot: usize,
        byte: u8,
    },
    /// Clears `O_APPEND`.
    ClearAppend(usize),
    Remove {
        at: At,
        directory: bool,
    },
    Rename {
        from: At,
        to: At,
        flags: RenameFlags,
    },
    Link {
        from: Linked,
        to: At,
    },
    Make(At, Made),
    /// Sets the flags of `chattr`: only in the source.
    SetFlags(String, IFlags),
    Stat(String),
    List(String),
    ReadLink(String),
}

/// A file to link.
#[derive(Debug, Clone)]
pub(super) enum Linked {
    Name(At),
    /// An open file, through `/proc/self/fd`.
    Open(usize),
}

impl Operation {
    /// Whether it opens a file: the kernel decides by what it remembers of the file.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Reopen { .. })
    }

    pub(super) fn is_rename(&self) -> bool {
        matches!(self, Self::Rename { .. })
    }

    /// Whether it links an open file.
    pub(super) fn links_open(&self) -> bool {
        matches!(
            self,
            Self::Link {
                from: Linked::Open(_),
                ..
            }
        )
    }

    pub(super) fn is_store(&self) -> bool {
        matches!(self, Self::Store { .. })
    }

    pub(super) fn is_clear_append(&self) -> bool {
        matches!(self, Self::ClearAppend(_))
    }

    /// Whether it can change content.
    pub(super) fn writes(&self) -> bool {
        match self {
            Self::Open { flags, .. } | Self::Reopen { flags, .. } => flags.contains(OFlags::TRUNC),
            Self::Change(_, Change::Length(_)) => true,
            Self::Write { .. } | Self::Allocate { .. } | Self::Store { .. } => true,
            _ => false,
        }
    }

    /// Whether it opens a file in a way that only its owner may.
    pub(super) fn is_owners_open(&self) -> bool {
        matches!(self, Self::Open { flags, .. } if flags.contains(OFlags::NOATIME))
    }

    /// Whether it changes nothing.
    pub(super) fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::Stat(_) | Self::List(_) | Self::ReadLink(_) | Self::Close(_)
        )
    }

    /// The names that it is about.
    pub(super) fn paths(&self) -> Vec<&str> {
        match self {
            Self::Open { at, .. } | Self::Remove { at, .. } | Self::Make(at, _) => vec![&at.path],
            Self::Change(Object::Name(path), _) | Self::SetFlags(path, _) => vec![path],
            Self::Rename { from, to, .. } => vec![&from.path, &to.path],
            Self::Link { to, .. } => vec![&to.path],
            _ => Vec::new(),
        }
    }

    /// The slots that it uses.
    pub(super) fn slots(&self) -> Vec<usize> {
        let directories = match self {
            Self::Open { at, .. } | Self::Remove { at, .. } | Self::Make(at, _) => [Some(at), None],
            Self::Rename { from, to, .. }
            | Self::Link {
                from: Linked::Name(from),
                to,
            } => [Some(from), Some(to)],
            Self::Link { to, .. } => [None, Some(to)],
            _ => [None, None],
        };
        let directories = directories.into_iter().flatten();
        let slots = directories.filter_map(|at| at.directory);
        slots.chain(self.slot()).collect()
    }

    /// The slot of the file that it uses.
    pub(super) fn slot(&self) -> Option<usize> {
        match self {
            Self::Reopen { from: slot, .. }
            | Self::Change(Object::Open(slot), _)
            | Self::Write { slot, .. }
            | Self::Allocate { slot, .. }
            | Self::Store { slot, .. }
            | Self::ClearAppend(slot)
            | Self::Link {
                from: Linked::Open(slot),
                ..
            } => Some(*slot),
            _ => None,
        }
    }

    /// Its kind, to count.
    pub(super) fn kind(&self) -> String {
        let text = format!("{self:?}");
        let words = text.split(|letter: char| !letter.is_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        match self {
            Self::Change(object, change) => {
                let object = match object {
                    Object::Name(_) => "Name",
                    Object::Open(_) => "Open",
                };
                let change = format!("{change:?}");
                let end = change.find('(').unwrap_or(change.len());
                format!("Change {object} {}", &change[..end])
            }
            _ => words[0].to_owned(),
        }
    }
}
