//! The raw structures of an image: big-endian, unaligned, not validated.

use verimount_tree::FileType;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, big_endian::U32};

/// The first eight bytes of every romfs image.
pub(crate) const MAGIC: [u8; 8] = *b"-rom1fs-";

/// The first eight bytes of a header index.
pub(crate) const INDEX_MAGIC: [u8; 8] = *b"VMINDEX1";

/// The low bits of [`FileHeader::next_and_mode`] that are not part of the offset.
pub(crate) const MODE_MASK: u32 = 0xf;

/// The part of the mode bits that holds the type.
pub(crate) const TYPE_MASK: u32 = 0x7;

/// The mode bit of programs and searchable directories.
pub(crate) const EXECUTABLE: u32 = 0x8;

/// The type bits of a hard link.
pub(crate) const HARD_LINK: u32 = 0;

/// The type bits of everything else.
pub(crate) const FILE_TYPES: [(u32, FileType); 7] = [
    (1, FileType::Directory),
    (2, FileType::RegularFile),
    (3, FileType::Symlink),
    (4, FileType::BlockDevice),
    (5, FileType::CharDevice),
    (6, FileType::Socket),
    (7, FileType::Fifo),
];

/// The start of the superblock; the volume name follows.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) magic: [u8; 8],
    /// The number of accessible bytes: all but the padding and a header index at the end.
    pub(crate) size: U32,
    /// Makes the sum of the image's first 512 bytes zero.
    pub(crate) checksum: U32,
}

/// The start of a file header; the name follows, then the data.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct FileHeader {
    /// Offset of the directory's next header, or 0, with mode bits in the low four bits.
    pub(crate) next_and_mode: U32,
    /// First header of a directory, target of a hard link, or device number.
    pub(crate) spec: U32,
    /// The length of the data in bytes.
    pub(crate) size: U32,
    /// Makes the sum of header, name and the name's padding zero.
    pub(crate) checksum: U32,
}

/// The start of a header index.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct IndexHeader {
    pub(crate) magic: [u8; 8],
    /// Number of [`IndexDirectory`] records.
    pub(crate) directories: U32,
    /// Number of [`IndexEntry`] records.
    pub(crate) entries: U32,
    /// The total length of all names in bytes.
    pub(crate) name_bytes: U32,
    /// Zero.
    pub(crate) reserved: [u8; 12],
}

/// One directory in a header index. Its entries and names end where those of the next directory
/// begin.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct IndexDirectory {
    /// Offset of the directory's header.
    pub(crate) header: U32,
    /// Number of entries in all directories before it.
    pub(crate) first_entry: U32,
    /// Total length of the names in all directories before it.
    pub(crate) first_name: U32,
}

/// One entry of a directory in a header index. The directory's names follow its records.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct IndexEntry {
    /// The start of the name within the directory's names. It ends where the next one starts.
    pub(crate) name: U32,
    /// Offset of the header (of the target for a hard link), with its mode bits in the low four
    /// bits.
    pub(crate) header_and_mode: U32,
    /// Data offset of a file or symbolic link, number of a device, else 0.
    pub(crate) detail: U32,
    /// The length of the data in bytes.
    pub(crate) size: U32,
}

const _: () = {
    assert!(size_of::<Superblock>() == 16);
    assert!(size_of::<FileHeader>() == 16);
    assert!(size_of::<IndexHeader>() == 32);
    assert!(size_of::<IndexDirectory>() == 12);
    assert!(size_of::<IndexEntry>() == 16);
};
