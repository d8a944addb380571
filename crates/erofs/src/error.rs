use thiserror::Error;
use verimount_source::ReadError;
use verimount_tree::Error as TreeError;

use crate::{space::Address, xattr_prefixes, xattrs};

/// Why an image could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The image's bytes could not be read.
    #[error(transparent)]
    Source(#[from] ReadError),
    /// The source has no superblock of EROFS.
    #[error("not an EROFS image")]
    NotErofs,
    /// The image's end is missing.
    #[error("truncated EROFS image: {available} bytes instead of at least {size}")]
    Truncated {
        /// The size according to the superblock, in bytes.
        size: u64,
        /// The available bytes.
        available: u64,
    },
    /// The image contradicts the format or itself.
    #[error("corrupt EROFS image: {0}")]
    Corrupt(#[from] Corruption),
    /// The image may be valid, but uses what this reader does not know.
    #[error("unsupported EROFS image: {0}")]
    Unsupported(#[from] Unsupported),
}

impl From<Error> for TreeError {
    fn from(error: Error) -> Self {
        match error {
            Error::Source(error) => Self::Read(error),
            Error::Unsupported(_) => Self::unsupported(error),
            _ => Self::corrupt(error),
        }
    }
}

/// A place in an image where it contradicts the format or itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{at}: {defect}")]
pub struct Corruption {
    at: Address,
    defect: Defect,
}

/// What is wrong with a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Defect {
    #[error("the superblock's checksum does not match")]
    SuperblockChecksum,
    #[error("blocks of 2^{0} bytes are impossible")]
    BlockSize(u8),
    #[error("the superblock's extensions are outside the image")]
    Extensions,
    #[error("the number of a special inode is impossible")]
    SpecialInode,
    #[error("the root is not a directory")]
    Root,
    #[error("a structure is outside the image")]
    Range,
    #[error("an address is impossibly large")]
    Address,
    #[error("an inode is in front of the end of the superblock, or too far away")]
    InodeRange,
    #[error("an inode's type is impossible: mode {0:#o}")]
    Mode(u16),
    #[error("a file's size of {0} bytes is impossible")]
    Size(u64),
    #[error("a time is impossible")]
    Time,
    #[error("the end of a file does not fit behind its inode")]
    InlineTail,
    #[error("a directory's block has an impossible number of entries")]
    EntryCount,
    #[error("an entry's name has an impossible length")]
    NameLen,
    #[error("an entry's name contains a slash or NUL")]
    NameCharacter,
    #[error("the names of a directory are not in order")]
    NameOrder,
    #[error("an entry's type is not its inode's")]
    EntryType,
    #[error("a symbolic link's target has an impossible length of {0} bytes")]
    TargetLen(u64),
    #[error("a symbolic link's target contains a NUL")]
    TargetCharacter,
    #[error("extended attributes are cut off")]
    XattrRange,
    #[error("an inode has more than {} extended attributes", xattrs::MAX_OWN)]
    XattrCount,
    #[error(
        "a prefix of attributes' names has more than {} bytes",
        xattr_prefixes::MAX_LEN
    )]
    XattrPrefix,
    #[error("a fragment is not in the packed inode")]
    Fragment,
    #[error("a map of compressed clusters contradicts itself")]
    ClusterMap,
    #[error("a map of compressed clusters leads from one to the next in too many steps")]
    ClusterHops,
    #[error("compressed data has an impossible length")]
    ClusterLen,
    #[error("compressed data cannot be decompressed")]
    ClusterData,
    #[error("compression algorithm {0} is not among those of the superblock")]
    Algorithm(u8),
    #[error("a chunk is on device {0}, which the image does not have")]
    Device(u16),
}

impl Defect {
    /// This defect in the structure at `at`.
    pub(crate) fn at(self, at: Address) -> Corruption {
        let defect = self;
        Corruption { at, defect }
    }

    /// This defect in the structure at byte `at` of the image.
    pub(crate) fn in_image(self, at: u64) -> Corruption {
        self.at(Address::in_image(at))
    }
}

/// What an image uses that this reader does not know, or has no data for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// It is an image of composefs, in which larger files are holes: their contents are other files elsewhere.
    #[error("an image of composefs, whose files have their contents elsewhere")]
    Composefs,
    /// The superblock says that the image cannot be read without features that this reader does not know.
    #[error("unknown features {0:#x}")]
    Features(
        /// Their bits.
        u32,
    ),
    /// The superblock gives directories blocks of another size.
    #[error("directories have blocks of their own size")]
    DirectoryBlockSize,
    /// An inode's format has unknown bits.
    #[error("unknown inode format {0:#x}")]
    InodeFormat(u16),
    /// An inode's data is stored in an unknown way.
    #[error("unknown data layout {0}")]
    Layout(u16),
    /// A file's map of compressed clusters has a form that this reader does not know.
    #[error("a map of compressed clusters of {0} bytes for each")]
    ClusterSize(
        /// The size of the uncompressed clusters.
        u64,
    ),
    /// A file has more compressed extents than are counted without the places of their data.
    #[error("a file of {0} compressed extents without the places of their data")]
    ExtentCount(
        /// How many.
        u64,
    ),
    /// Many extents of a file have very little content each, and very large clusters.
    #[error("too much compressed data for too little content")]
    LargeClusters,
    /// A file's chunk format has unknown bits.
    #[error("unknown chunk format {0:#x}")]
    ChunkFormat(u16),
    /// There are more or fewer devices than the image has.
    #[error("it has {expected} further devices, not {given}")]
    DeviceCount {
        /// How many its device table has.
        expected: u16,
        /// How many were given.
        given: usize,
    },
    /// The places of all files in the image are too many.
    #[error("so much data is shared that listing the files would take too long")]
    Places,
    /// A file needs a device that was not given.
    #[error("device {0} is needed")]
    NoDevice(u16),
}
