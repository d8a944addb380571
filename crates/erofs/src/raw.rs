//! The raw structures of an image: little-endian, unaligned, not validated.

use verimount_tree::FileType;
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{I64, U16, U32, U64},
};

/// Where the superblock begins, in bytes.
pub(crate) const SUPERBLOCK: u64 = 1024;

/// The first four bytes of a superblock.
pub(crate) const MAGIC: u32 = 0xe0f5_e1e2;

/// The first four bytes of an image of composefs.
pub(crate) const COMPOSEFS_MAGIC: u32 = 0xd078_629a;

/// How long the units are that superblocks are extended by, in bytes.
pub(crate) const EXTENSION: u64 = 16;

/// The unit of inode numbers in bytes. Every inode begins at a multiple of it.
pub(crate) const INODE_SLOT: u64 = 32;

/// The bit of an inode number in a directory that says that the inode is in the metabox.
pub(crate) const NID_IN_METABOX: u64 = 1 << 63;

/// The unit of shared attributes' numbers and of the position of the table of name prefixes, in bytes.
pub(crate) const XATTR_SLOT: u64 = 4;

/// The unit of the device table's position in bytes.
pub(crate) const DEVICE_SLOT: u64 = 128;

/// A block address of 48 bits that stands for a hole. In fewer bits, it is cut off.
pub(crate) const HOLE: u64 = (1 << 48) - 1;

/// The bits of `i_format`.
pub(crate) mod format {
    pub(crate) const EXTENDED: u16 = 1;
    pub(crate) const LAYOUT_SHIFT: u16 = 1;
    pub(crate) const LAYOUT_MASK: u16 = 7;
    /// A compact inode of anything but a directory has one name, and a block address of 48 bits.
    pub(crate) const ONE_LINK: u16 = 1 << 4;
    pub(crate) const ALL: u16 = 0x1f;
}

/// Values of the layout bits.
pub(crate) mod layout {
    pub(crate) const FLAT_PLAIN: u16 = 0;
    pub(crate) const COMPRESSED_FULL: u16 = 1;
    pub(crate) const FLAT_INLINE: u16 = 2;
    pub(crate) const COMPRESSED_COMPACT: u16 = 3;
    pub(crate) const CHUNKS: u16 = 4;
}

/// The bits of a file's chunk format.
pub(crate) mod chunk_format {
    /// The base-2 logarithm of a chunk's size in blocks.
    pub(crate) const SIZE_MASK: u16 = 0x1f;
    /// Records have a device and a longer block address.
    pub(crate) const INDEXES: u16 = 0x20;
    /// All 48 bits of the block address count.
    pub(crate) const WIDE: u16 = 0x40;
    pub(crate) const ALL: u16 = 0x7f;
}

/// The types of files in directories, each with its number.
pub(crate) const FILE_TYPES: [(u8, FileType); 7] = [
    (1, FileType::RegularFile),
    (2, FileType::Directory),
    (3, FileType::CharDevice),
    (4, FileType::BlockDevice),
    (5, FileType::Fifo),
    (6, FileType::Socket),
    (7, FileType::Symlink),
];

/// The beginning of names of extended attributes, by number.
pub(crate) mod xattr_index {
    pub(crate) const USER: u8 = 1;
    pub(crate) const ACL_ACCESS: u8 = 2;
    pub(crate) const ACL_DEFAULT: u8 = 3;
    pub(crate) const TRUSTED: u8 = 4;
    pub(crate) const SECURITY: u8 = 6;
    /// The other bits are a number in the table of name prefixes.
    pub(crate) const LONG_PREFIX: u8 = 0x80;
}

/// The superblock. The fields that later versions of the format have added are zero in older images.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) magic: U32,
    pub(crate) checksum: U32,
    pub(crate) compatible: U32,
    pub(crate) block_bits: u8,
    pub(crate) extensions: u8,
    /// With 48-bit addresses and a `wide_root`, the upper bits of `blocks`.
    pub(crate) root: U16,
    pub(crate) inodes: U64,
    pub(crate) epoch: I64,
    pub(crate) nanoseconds: U32,
    pub(crate) blocks: U32,
    pub(crate) inode_block: U32,
    pub(crate) xattr_block: U32,
    pub(crate) uuid: [u8; 16],
    pub(crate) volume_name: [u8; 16],
    pub(crate) incompatible: U32,
    /// Set of algorithms; in images without compression configurations the largest distance of LZ4.
    pub(crate) algorithms: U16,
    pub(crate) extra_devices: U16,
    pub(crate) device_slot: U16,
    pub(crate) directory_block_bits: u8,
    pub(crate) xattr_prefixes: u8,
    pub(crate) xattr_prefix_slot: U32,
    pub(crate) packed_inode: U64,
    pub(crate) no_xattr_filter: u8,
    pub(crate) shared_inode_prefix: u8,
    pub(crate) reserved: [u8; 2],
    pub(crate) build_time: U32,
    pub(crate) wide_root: U64,
    pub(crate) reserved_too: [u8; 8],
}

/// The first unit that superblocks are extended by.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Extension {
    pub(crate) metabox_inode: U64,
    pub(crate) reserved: [u8; 8],
}

/// An inode without 32-bit owners, without an own time.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct CompactInode {
    pub(crate) format: U16,
    pub(crate) xattr_count: U16,
    pub(crate) mode: U16,
    /// Number of names, or bits 32 to 47 of an address.
    pub(crate) links_or_high: U16,
    pub(crate) size: U32,
    /// Seconds after the image's epoch.
    pub(crate) mtime: U32,
    /// What the layout says: block address, device number, number of blocks or chunk format.
    pub(crate) detail: U32,
    pub(crate) number: U32,
    pub(crate) uid: U16,
    pub(crate) gid: U16,
    pub(crate) reserved: [u8; 4],
}

/// An inode with everything.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ExtendedInode {
    pub(crate) format: U16,
    pub(crate) xattr_count: U16,
    pub(crate) mode: U16,
    pub(crate) high: U16,
    pub(crate) size: U64,
    pub(crate) detail: U32,
    pub(crate) number: U32,
    pub(crate) uid: U32,
    pub(crate) gid: U32,
    pub(crate) mtime: I64,
    pub(crate) mtime_nanoseconds: U32,
    pub(crate) links: U32,
    pub(crate) reserved: [u8; 16],
}

/// An entry of a directory. All those of a block come first, then the names.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct DirectoryEntry {
    pub(crate) nid: U64,
    /// Where the name begins in the block.
    pub(crate) name: U16,
    pub(crate) file_type: u8,
    pub(crate) reserved: u8,
}

/// Where a chunk is, with a device.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ChunkIndex {
    pub(crate) high: U16,
    pub(crate) device: U16,
    pub(crate) low: U32,
}

/// The bits of a compressed file's advice.
pub(crate) mod advice {
    /// A compact index has records of 2 bytes.
    pub(crate) const TWO_BYTES: u16 = 1 << 0;
    /// Instead of an index, there is a list of extents.
    pub(crate) const EXTENTS: u16 = 1 << 0;
    /// With a list of extents: the base-2 logarithm of a record's length in units of 4 bytes.
    pub(crate) const RECORD_SHIFT: u16 = 1;
    pub(crate) const RECORD_MASK: u16 = 3;
    /// Clusters of the first algorithm may have several blocks.
    pub(crate) const BIG_FIRST: u16 = 1 << 1;
    /// Clusters of the second algorithm may have several blocks.
    pub(crate) const BIG_SECOND: u16 = 1 << 2;
    /// The last cluster is behind the index.
    pub(crate) const INLINE: u16 = 1 << 3;
    /// What is stored as it is begins where it does in the file's block.
    pub(crate) const INTERLACED: u16 = 1 << 4;
    /// The last part is in the packed inode.
    pub(crate) const FRAGMENT: u16 = 1 << 5;
}

/// Types of the clusters of an index.
pub(crate) mod cluster_type {
    pub(crate) const PLAIN: u16 = 0;
    pub(crate) const FIRST: u16 = 1;
    pub(crate) const FOLLOWING: u16 = 2;
    pub(crate) const SECOND: u16 = 3;
    pub(crate) const MASK: u16 = 3;
    /// In the first cluster behind another one's beginning: the other bits are a number of blocks.
    pub(crate) const BLOCKS: u16 = 1 << 11;
}

/// The bits of the length in a list of extents.
pub(crate) mod extent_len {
    pub(crate) const MASK: u32 = (1 << 21) - 1;
    /// One more than the algorithm; 0 for what is stored as it is.
    pub(crate) const ALGORITHM_SHIFT: u32 = 28;
}

/// What LZ4 needs to know.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Lz4Parameters {
    pub(crate) max_distance: U16,
    /// The most blocks of a cluster.
    pub(crate) max_blocks: U16,
    pub(crate) reserved: [u8; 10],
}

/// What Zstandard needs to know.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct ZstdParameters {
    pub(crate) format: u8,
    /// The base-2 logarithm of the window's size in KiB.
    pub(crate) window_bits: u8,
    pub(crate) reserved: [u8; 4],
}

/// The beginning of a compressed file's map.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct MapHeader {
    /// Where the fragment is; the number of extents; or, in the upper half, the length of the inline cluster.
    pub(crate) detail: U32,
    pub(crate) advice: U16,
    /// Two algorithms of 4 bits.
    pub(crate) algorithms: u8,
    /// The size of clusters in the lower four bits; in the highest, whether all of the file is a fragment.
    pub(crate) cluster_bits: u8,
}

/// A record of a full index.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct FullRecord {
    pub(crate) advice: U16,
    pub(crate) offset: U16,
    /// The block; or the distances back and forward, of 16 bits each.
    pub(crate) detail: U32,
}

/// A record of the device table.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct DeviceSlot {
    pub(crate) tag: [u8; 64],
    pub(crate) blocks: U32,
    pub(crate) unified_block: U32,
    pub(crate) blocks_high: U16,
    pub(crate) unified_block_high: U16,
    pub(crate) reserved: [u8; 52],
}

/// The beginning of an inode's extended attributes; the numbers of shared ones follow, then the others.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct XattrHeader {
    /// A bit for each hash of a name that none of the attributes has.
    pub(crate) absent: U32,
    pub(crate) shared: u8,
    pub(crate) reserved: [u8; 7],
}

/// An extended attribute; its name follows, then its value, then padding to a multiple of 4.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct XattrEntry {
    pub(crate) name_len: u8,
    pub(crate) index: u8,
    pub(crate) value_len: U16,
}

const _: () = {
    assert!(size_of::<Superblock>() == 128);
    assert!(size_of::<Extension>() == 16);
    assert!(size_of::<CompactInode>() == 32);
    assert!(size_of::<ExtendedInode>() == 64);
    assert!(size_of::<DirectoryEntry>() == 12);
    assert!(size_of::<ChunkIndex>() == 8);
    assert!(size_of::<Lz4Parameters>() == 14);
    assert!(size_of::<ZstdParameters>() == 6);
    assert!(size_of::<MapHeader>() == 8);
    assert!(size_of::<FullRecord>() == 8);
    assert!(size_of::<DeviceSlot>() == 128);
    assert!(size_of::<XattrHeader>() == 12);
    assert!(size_of::<XattrEntry>() == 4);
};
