//! The raw on-disk structures: little-endian, unaligned, not validated.

use bitflags::bitflags;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

/// The size of a sector in bytes, for lengths in memory.
pub(crate) const SECTOR: usize = 512;

/// The magic number: the first eight bytes of every volume.
pub(crate) const MAGIC: [u8; 8] = *b"integrt\0";

bitflags! {
    /// The bits of [`Superblock::flags`].
    #[derive(Clone, Copy)]
    pub(crate) struct Flags: u32 {
        const JOURNAL_MAC = 1;
        const RECALCULATING = 2;
        const DIRTY_BITMAP = 4;
        const FIXED_PADDING = 8;
        const FIXED_HMAC = 0x10;
        const INLINE = 0x20;
    }
}

/// The superblock. It is padded with zeros to [`SUPERBLOCK_SIZE`], except for an optional MAC at
/// the end of its first sector.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u8,
    /// 0 with a separate data device.
    pub(crate) log2_interleave_sectors: u8,
    pub(crate) tag_size: U16,
    pub(crate) journal_sections: U32,
    pub(crate) provided_data_sectors: U64,
    pub(crate) flags: U32,
    pub(crate) log2_sectors_per_block: u8,
    pub(crate) log2_blocks_per_bitmap_bit: u8,
    pub(crate) reserved: [u8; 2],
    pub(crate) recalculation_sector: U64,
    pub(crate) reserved2: [u8; 8],
    pub(crate) salt: [u8; 16],
}

/// The size of the superblock on a volume, in bytes.
pub(crate) const SUPERBLOCK_SIZE: usize = 4096;

/// The bytes of a journal sector before its commit id: entries or data.
pub(crate) const JOURNAL_CONTENTS: usize = 504;

/// The bytes of a section's MAC that each of its metadata sectors holds, at the end of its
/// contents.
pub(crate) const JOURNAL_MAC_PART: usize = 8;

const _: () = {
    assert!(size_of::<Superblock>() == 64);
    assert!(JOURNAL_CONTENTS + size_of::<U64>() == SECTOR);
};
