//! What an inode takes: its form, and how its data is stored.

use verimount_scan::{Entry, Inode, InodeKind, SourceTree};
use verimount_tree::Timestamp;

use super::{
    Format,
    attributes::Attributes,
    chunk_map::{self, ChunkMap},
    compress::index::Geometry,
    directory,
};
use crate::raw::{CompactInode, ExtendedInode};

/// What an inode takes.
#[derive(Debug)]
pub(super) struct Shape {
    /// Whether it needs the longer form.
    pub(super) extended: bool,
    /// Number of names; of a directory, of `.` and its subdirectories' `..` as well.
    pub(super) links: u32,
    /// Bytes of data.
    pub(super) size: u64,
    /// Bytes of its extended attributes.
    pub(super) attributes: u64,
    pub(super) data: Data,
}

/// How data is stored.
#[derive(Debug)]
pub(super) enum Data {
    /// In blocks that follow each other, and the end of it behind the inode.
    Flat {
        /// Number of blocks.
        blocks: u64,
        /// Bytes behind the inode.
        tail: u64,
    },
    /// In chunks, and their map behind the inode.
    Chunks(ChunkMap),
    /// Compressed if that saves space, and the index behind the inode. Otherwise in blocks that follow each other.
    Compressed(Geometry),
}

impl Shape {
    /// The shape of the inode with this name.
    pub(super) fn new(entry: Entry<'_>, attributes: &Attributes, format: Format) -> Self {
        let inode = entry.inode();
        let links = match inode.kind {
            InodeKind::Directory(_) => {
                let directories = entry.children().filter(|child| child.is_directory());
                // There are fewer than 2³² entries.
                (2 + directories.count()) as u32
            }
            _ => inode.names,
        };
        let size = match &inode.kind {
            InodeKind::Directory(_) => directory::size(entry, format.block),
            InodeKind::File(file) => file.size(),
            InodeKind::Symlink(target) => target.len() as u64,
            _ => 0,
        };
        let mut shape = Self {
            extended: needs_extended(inode, links, size, format),
            links,
            size,
            attributes: attributes.len(entry.tree(), inode.attributes),
            data: Data::Flat { blocks: 0, tail: 0 },
        };
        shape.data = shape.store(&inode.kind, format);
        shape
    }

    /// Bytes of the inode with all that follows it.
    pub(super) fn len(&self) -> u64 {
        let before = self.len_before_data();
        match &self.data {
            Data::Flat { tail, .. } => before + tail,
            Data::Chunks(map) => before + map.len(),
            Data::Compressed(index) => index.at + index.len(),
        }
    }

    /// Bytes of the inode and its extended attributes.
    fn len_before_data(&self) -> u64 {
        let inode = if self.extended {
            size_of::<ExtendedInode>()
        } else {
            size_of::<CompactInode>()
        };
        inode as u64 + self.attributes
    }

    /// Number of blocks outside of the metadata, or for directories apart from the inode. If the data is compressed,
    /// there are at most so many.
    pub(super) fn blocks(&self) -> u64 {
        match &self.data {
            Data::Flat { blocks, .. } => *blocks,
            Data::Chunks(map) => map.stored_blocks(),
            Data::Compressed(index) => index.entries,
        }
    }

    /// Chooses how the data is stored.
    ///
    /// The end of a directory is behind its inode wherever it fits in the same block. Of a file it is only if
    /// that is all of it: one read then finds everything, while for a longer one it would be a further
    /// read. What has a block or less is not compressed, as that saves nothing.
    fn store(&self, kind: &InodeKind, format: Format) -> Data {
        let block = format.block;
        if let InodeKind::File(file) = kind
            && let Some(map) = ChunkMap::new(file, block)
        {
            return Data::Chunks(map);
        }
        if matches!(kind, InodeKind::File(_))
            && format.compression.is_some()
            && self.size > block.bytes()
        {
            return Data::Compressed(Geometry::new(self.size, self.len_before_data(), block));
        }
        let tail = block.offset_in_block(self.size);
        let fits = self.len_before_data() + tail <= block.bytes();
        let may_be_split = matches!(kind, InodeKind::Directory(_)) || self.size < block.bytes();
        if fits && may_be_split {
            Data::Flat {
                blocks: (self.size - tail) / block.bytes(),
                tail,
            }
        } else {
            Data::Flat {
                blocks: block.blocks_for(self.size),
                tail: 0,
            }
        }
    }
}

/// Whether an inode does not fit in the shorter form.
fn needs_extended(inode: &Inode, links: u32, size: u64, format: Format) -> bool {
    let is_short = |number: u32| u16::try_from(number).is_ok();
    let fits = is_short(inode.owner.uid)
        && is_short(inode.owner.gid)
        && is_short(links)
        && u32::try_from(size).is_ok()
        && inode.mtime == format.time;
    !fits
}

/// The time that most inodes have; of several the earliest.
pub(super) fn most_common_time(tree: &SourceTree) -> Timestamp {
    let mut times: Vec<Timestamp> = tree.inodes().iter().map(|inode| inode.mtime).collect();
    times.sort_unstable();
    let runs = times.chunk_by(|a, b| a == b);
    // The last of several maxima is found, so from the end.
    let longest = runs.rev().max_by_key(|run| run.len());
    longest
        .and_then(|run| run.first())
        .copied()
        .unwrap_or(Timestamp::EPOCH)
}

const _: () = assert!(
    chunk_map::RECORD == 4,
    "the map needs no alignment of its own"
);
