use std::{num::NonZeroU32, ops::Range};

use crate::{
    raw::{JOURNAL_CONTENTS, JOURNAL_MAC_PART, SECTOR},
    superblock::Shape,
};

/// The number of sectors of a section that hold entries. The blocks' data follows them.
pub(crate) const METADATA_SECTORS: usize = 8;

/// The bytes at the end of each data sector that the commit id replaces; the entry holds them
/// instead.
pub(crate) const LAST_BYTES: usize = 8;

/// The alignment of entries in bytes.
const ENTRY_ALIGNMENT: usize = 8;

/// The layout of a journal section.
///
/// An entry holds the target sector of its block, the last bytes of each of the block's sectors,
/// and the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalLayout {
    sectors_per_block: usize,
    entry_size: usize,
    tag_size: usize,
    /// The number of entries in a section.
    pub(crate) entries: usize,
}

impl JournalLayout {
    pub(crate) fn new(shape: &Shape) -> Self {
        let sectors_per_block = 1 << shape.block_size.log2_sectors();
        let tag_size = shape.tag_size.bytes();
        let entry_size = (size_of::<u64>() + LAST_BYTES * sectors_per_block + tag_size)
            .next_multiple_of(ENTRY_ALIGNMENT);
        let room = if shape.journal_mac {
            JOURNAL_CONTENTS - JOURNAL_MAC_PART
        } else {
            JOURNAL_CONTENTS
        };
        Self {
            sectors_per_block,
            entry_size,
            tag_size,
            entries: room / entry_size * METADATA_SECTORS,
        }
    }

    /// The size of a section in sectors.
    pub(crate) fn section_sectors(&self) -> u64 {
        self.section_len() as u64 / SECTOR as u64
    }

    /// The size of a section in bytes.
    pub(crate) fn section_len(&self) -> usize {
        (METADATA_SECTORS + self.entries * self.sectors_per_block) * SECTOR
    }

    /// The number of sections in a journal of `sectors` sectors; at least one.
    pub(crate) fn sections(&self, sectors: u64) -> NonZeroU32 {
        let sections = u32::try_from(sectors / self.section_sectors()).unwrap_or(u32::MAX);
        NonZeroU32::new(sections).unwrap_or(NonZeroU32::MIN)
    }

    /// The bytes of a section that hold the target sector of `entry`.
    pub(crate) fn entry_sector(&self, entry: usize) -> Range<usize> {
        let start = self.entry(entry);
        start..start + size_of::<u64>()
    }

    /// The bytes of a section that hold the last bytes of each sector of the block of `entry`.
    pub(crate) fn entry_last_bytes(&self, entry: usize) -> Range<usize> {
        let start = self.entry(entry) + size_of::<u64>();
        start..start + LAST_BYTES * self.sectors_per_block
    }

    /// The bytes of a section that hold the tag of `entry`.
    pub(crate) fn entry_tag(&self, entry: usize) -> Range<usize> {
        let start = self.entry_last_bytes(entry).end;
        start..start + self.tag_size
    }

    /// The bytes of a section that hold the block of `entry`.
    pub(crate) fn entry_data(&self, entry: usize) -> Range<usize> {
        let len = self.sectors_per_block * SECTOR;
        let start = METADATA_SECTORS * SECTOR + entry * len;
        start..start + len
    }

    /// Entries are distributed round-robin over the metadata sectors.
    fn entry(&self, entry: usize) -> usize {
        debug_assert!(entry < self.entries, "a section has no entry {entry}");
        entry % METADATA_SECTORS * SECTOR + entry / METADATA_SECTORS * self.entry_size
    }
}

/// The largest entry fits in a sector, even with a MAC.
const _: () = assert!(
    size_of::<u64>() + LAST_BYTES * 8 + crate::TagSize::MAX as usize
        <= JOURNAL_CONTENTS - JOURNAL_MAC_PART
);
