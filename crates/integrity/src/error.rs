use std::sync::Arc;

use thiserror::Error;
use verimount_source::{ReadError, WriteError};

use crate::{BadBlock, ParamError};

/// Why a volume could not be formatted, opened, read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage could not be read.
    #[error(transparent)]
    Source(#[from] ReadError),
    /// The storage could not be written. Only occurs as the cause in [`Error::Latched`].
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The device does not begin with the magic number of a volume.
    #[error("not a dm-integrity volume")]
    NotIntegrity,
    /// The volume's own structures contradict the format.
    #[error("corrupt dm-integrity volume: {0}")]
    Corrupt(#[from] Corruption),
    /// The volume uses a feature that is not supported.
    #[error("unsupported dm-integrity volume: {0}")]
    Unsupported(#[from] Unsupported),
    /// A parameter has a value that the format does not allow.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// The options contradict each other or the volume.
    #[error("{0}")]
    Usage(#[from] Usage),
    /// The storage is smaller than the volume, or too small for any volume.
    #[error("a device of {available} sectors is too small for the volume")]
    TooSmall {
        /// The size of the storage in sectors.
        available: u64,
    },
    /// A disk of the size that was asked for does not fit on the storage.
    #[error("a disk of this size does not fit; the largest that does has {largest} bytes")]
    DiskTooLarge {
        /// The size of the largest disk that fits, in bytes.
        largest: u64,
    },
    /// A volume cannot become smaller.
    #[error("the disk has {size} bytes already, and volumes cannot shrink")]
    CannotShrink {
        /// The size of its disk in bytes.
        size: u64,
    },
    /// Blocks do not match their tags: the whole request fails.
    #[error("{} of the blocks read do not match their tags, the first being the {first}", more + 1)]
    Mismatch {
        /// The first bad block.
        first: Box<BadBlock>,
        /// The number of further bad blocks.
        more: u64,
    },
    /// A write or flush has failed, in this request or an earlier one: the contents of the storage
    /// are no longer certain.
    #[error("the volume is read-only because a write failed: {0}")]
    Latched(#[source] Arc<Error>),
    /// The request is outside the volume.
    #[error("{len} bytes at offset {offset} exceed the volume of {size} bytes")]
    PastEnd {
        /// First byte of the request.
        offset: u64,
        /// Number of bytes of the request.
        len: u64,
        /// The volume's size in bytes.
        size: u64,
    },
    /// The volume was opened for reading only.
    #[error("the volume is open for reading only")]
    ReadOnly,
    /// The volume was opened without discards.
    #[error("the volume does not allow discards")]
    DiscardNotAllowed,
    /// The volume is open in recovery mode, so that a check would find nothing wrong.
    #[error("the volume is open in recovery mode, in which nothing is verified")]
    Unverified,
    /// Cancelled by the progress callback.
    #[error("interrupted")]
    Cancelled,
    /// The system provided no random bytes for the salt.
    #[error("no random bytes: {0}")]
    Random(#[source] std::io::Error),
}

/// How a volume contradicts the format or the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Corruption {
    /// The block size is not one of the four valid ones.
    #[error("the superblock gives blocks of 2^{0} sectors")]
    SectorsPerBlock(u8),
    /// The tag size is 0 or too large.
    #[error("the superblock gives tags of {0} bytes")]
    TagSize(u16),
    /// The interleave is too small or too large.
    #[error("the superblock gives an interleave of 2^{0} sectors")]
    Interleave(u8),
    /// There is no journal.
    #[error("the superblock gives a journal without sections")]
    NoJournal,
    /// The size is 0 or not a multiple of the block size.
    #[error("the superblock gives a size of {0} sectors")]
    ProvidedDataSectors(u64),
    /// The superblock's MAC does not match.
    #[error("the superblock's MAC does not match: the key is wrong or the superblock was changed")]
    SuperblockMac,
    /// A journal sector's commit id is invalid.
    #[error(
        "sector {sector} of journal section {section} has an invalid commit id: the journal is damaged, \
         or encrypted, which is not supported"
    )]
    CommitId {
        /// The section.
        section: u32,
        /// The sector in the section.
        sector: u32,
    },
    /// All four sequence numbers occur in the journal, so its oldest section is unknown.
    #[error("the journal has sectors of all four sequence numbers")]
    CommitSequence,
    /// A journal section's MAC does not match.
    #[error(
        "the MAC of journal section {0} does not match: the key is wrong or the journal was changed"
    )]
    JournalMac(u32),
    /// A journal entry's sector is not the start of a block.
    #[error(
        "an entry in journal section {section} is for sector {sector}, which does not start a block"
    )]
    JournalSector {
        /// The section.
        section: u32,
        /// The sector that the entry is for.
        sector: u64,
    },
    /// A journal entry's data does not match its tag.
    #[error("the journal's data for sector {sector} does not match its tag")]
    JournalTag {
        /// The sector that the entry is for.
        sector: u64,
    },
}

/// A feature of dm-integrity that is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// Tags in the device's per-sector metadata.
    #[error("inline tags (NVMe protection information)")]
    Inline,
    /// Another version of the format.
    #[error("version {0} of the format")]
    Version(u8),
    /// Unknown superblock flags.
    #[error("flags {0:#x}")]
    Flags(u32),
    /// A layout in which the kernel lets tags and data overlap.
    #[error("an interleave of less than 128 sectors with the legacy padding")]
    NarrowLegacy,
    /// Recalculation would put valid tags on tampered data.
    #[error(
        "recalculating keyed tags, which would put valid tags on tampered data, unless the volume \
         was formatted with the HMAC fix and a journal MAC (--journal-integrity)"
    )]
    KeyedRecalculation,
    /// A journal that takes 2^32 sectors or more.
    #[error("a journal of {0} sectors")]
    JournalSize(u64),
    /// A journal with too much in it to be held in memory, where it cannot be brought to its place.
    #[error(
        "more than {0} bytes in the journal, which takes writing to bring to their place: open it in \
         another mode, or in recovery mode"
    )]
    JournalContents(usize),
    /// A bitmap that takes more than 16 MiB.
    #[error(
        "a bitmap of {0} bytes (the limit is 16 MiB): let the kernel close the volume, or open it in \
         recovery mode"
    )]
    BitmapSize(u64),
}

/// Options that contradict each other or the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Usage {
    /// A keyed algorithm without a key.
    #[error("the integrity algorithm needs a key (--integrity-key-file)")]
    KeyMissing,
    /// A key for an algorithm that takes none.
    #[error("the integrity algorithm takes no key (--integrity-key-file)")]
    KeyUnused,
    /// None of the probed blocks matches its tag.
    #[error(
        "none of the blocks tried matches its tag: the integrity algorithm or the key is wrong"
    )]
    NothingMatches,
    /// The volume has a journal MAC, but no key for it was given.
    #[error(
        "the volume has a journal MAC: its algorithm and key are needed (--journal-integrity, \
         --journal-integrity-key-file)"
    )]
    JournalMacMissing,
    /// A journal MAC was given, but the volume has none.
    #[error("the volume has no journal MAC (--journal-integrity)")]
    JournalMacUnused,
    /// The volume keeps its data on a separate device, which was not given.
    #[error("the volume keeps its data on a separate device, which must be given (--data-device)")]
    DataDeviceMissing,
    /// A data device was given, but the volume stores data and tags on the same device.
    #[error("the volume stores its own data and takes no data device (--data-device)")]
    DataDeviceUnused,
    /// A superblock that is kept elsewhere was given for a mode that writes.
    #[error("with a superblock from elsewhere, a volume can only be read")]
    HeaderReadOnly,
    /// A superblock is not the volume's.
    #[error(
        "most blocks do not match their tags: the superblock is not this volume's, or the integrity algorithm or the key \
         is wrong"
    )]
    HeaderMismatch,
    /// The tags do not show that the size which a superblock gives is the volume's.
    #[error(
        "the tags do not show what size the volume has, as its last block is bad, or there may be others behind it: \
         give its size (--disk-size)"
    )]
    SizeUnknown,
    /// The superblock that held the salt is lost.
    #[error(
        "the salt of its tags was in the superblock, and without a backup of that nobody can tell it"
    )]
    SaltLost,
    /// An interleave was given for a volume with a separate data device.
    #[error("a volume with a separate data device has no interleave")]
    InterleaveUnused,
}
