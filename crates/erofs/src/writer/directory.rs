//! Directories: blocks of entries, sorted by name over the whole directory.

use std::{cmp::Ordering, iter};

use verimount_scan::{Entry, InodeId};
use verimount_tree::FileType;
use zerocopy::IntoBytes;

use crate::{
    block_size::BlockSize,
    raw::{DirectoryEntry, FILE_TYPES},
};

/// An entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dirent<'t> {
    name: &'t [u8],
    inode: InodeId,
    file_type: u8,
}

impl<'t> Dirent<'t> {
    fn new(name: &'t [u8], entry: Entry<'t>) -> Self {
        Self {
            name,
            inode: entry.inode_id(),
            file_type: type_number(entry.inode().kind.file_type()),
        }
    }

    /// Bytes that it takes in a block.
    fn len(&self) -> u64 {
        (size_of::<DirectoryEntry>() + self.name.len()) as u64
    }
}

/// Bytes of a directory.
pub(super) fn size(directory: Entry<'_>, block: BlockSize) -> u64 {
    let (mut full, mut used) = (0, 0);
    for dirent in dirents(directory) {
        if used + dirent.len() > block.bytes() {
            full += block.bytes();
            used = 0;
        }
        used += dirent.len();
    }
    full + used
}

/// The entries of each block of a directory.
pub(super) fn blocks(
    directory: Entry<'_>,
    block: BlockSize,
) -> impl Iterator<Item = Vec<Dirent<'_>>> {
    let mut dirents = dirents(directory).peekable();
    iter::from_fn(move || {
        let mut used = 0;
        let mut entries = Vec::new();
        while let Some(next) = dirents.next_if(|next| used + next.len() <= block.bytes()) {
            used += next.len();
            entries.push(next);
        }
        Some(entries).filter(|entries| !entries.is_empty())
    })
}

/// The bytes of a block with these entries, without padding.
pub(super) fn encode(entries: &[Dirent<'_>], nid: impl Fn(InodeId) -> u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut name_at = entries.len() * size_of::<DirectoryEntry>();
    for dirent in entries {
        let entry = DirectoryEntry {
            nid: nid(dirent.inode).into(),
            // Blocks have at most 64 KiB, and a name is not at their end.
            name: (name_at as u16).into(),
            file_type: dirent.file_type,
            reserved: 0,
        };
        bytes.extend_from_slice(entry.as_bytes());
        name_at += dirent.name.len();
    }
    for dirent in entries {
        bytes.extend_from_slice(dirent.name);
    }
    bytes
}

/// The entries of a directory with `.` and `..`, sorted by name.
fn dirents(directory: Entry<'_>) -> impl Iterator<Item = Dirent<'_>> {
    let dots = [
        Dirent::new(b".", directory),
        Dirent::new(b"..", directory.parent()),
    ];
    let mut dots = dots.into_iter().peekable();
    let children = directory.children();
    let mut children = children
        .map(|child| Dirent::new(child.name(), child))
        .peekable();
    iter::from_fn(move || {
        let order = match (dots.peek(), children.peek()) {
            (Some(dot), Some(child)) => dot.name.cmp(child.name),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match order {
            Ordering::Less => dots.next(),
            _ => children.next(),
        }
    })
}

fn type_number(file_type: FileType) -> u8 {
    let mut types = FILE_TYPES.iter();
    // All types are there.
    types
        .find(|(_, known)| *known == file_type)
        .map_or(0, |(number, _)| *number)
}
