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
    /// The storage could not be written: the reason in [`Error::Latched`].
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What is read does not begin as a volume does.
    #[error("not a dm-integrity volume")]
    NotIntegrity,
    /// The volume's own structures contradict the format.
    #[error("corrupt dm-integrity volume: {0}")]
    Corrupt(#[from] Corruption),
    /// The volume may be sound, but is not one that is supported here.
    #[error("unsupported dm-integrity volume: {0}")]
    Unsupported(#[from] Unsupported),
    /// A parameter has a value that the format does not have.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// What was asked for does not fit together, or not the volume.
    #[error("{0}")]
    Usage(#[from] Usage),
    /// The storage is smaller than the volume, or than any volume.
    #[error("a storage of {available} sectors is too small for the volume")]
    TooSmall {
        /// What there is, in sectors.
        available: u64,
    },
    /// Blocks do not match their tags: nothing of the request is handed out.
    #[error("{} of the blocks read do not match their tags, the first being {first}", more + 1)]
    Mismatch {
        /// The first of them.
        first: Box<BadBlock>,
        /// How many there are after it.
        more: u64,
    },
    /// A write or flush has failed, in this request or one before: what the storage holds is not
    /// known for sure any more.
    #[error("the volume is read-only since a write failed: {0}")]
    Latched(Arc<Error>),
    /// The request is outside the volume.
    #[error("{len} bytes at {offset} are not inside a volume of {size} bytes")]
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
    /// Whoever watched the progress ended it.
    #[error("interrupted")]
    Cancelled,
    /// The system gave no random bytes for a salt.
    #[error("no random bytes: {0}")]
    Random(#[source] std::io::Error),
}

/// What in a volume contradicts the format, or the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Corruption {
    /// The block size is none of the four.
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
    /// The size is 0 or no number of blocks.
    #[error("the superblock gives a size of {0} sectors")]
    ProvidedDataSectors(u64),
    /// The superblock's MAC does not match.
    #[error("the superblock's MAC does not match: the key is wrong or the superblock was changed")]
    SuperblockMac,
    /// A journal sector's commit id is none.
    #[error(
        "sector {sector} of journal section {section} has no commit id: the journal is damaged, \
         or encrypted, which is not supported"
    )]
    CommitId {
        /// The section.
        section: u32,
        /// The sector in the section.
        sector: u32,
    },
    /// The journal's sequence numbers are all in use.
    #[error("the journal has sectors of all four sequence numbers")]
    CommitSequence,
    /// A journal section's MAC does not match.
    #[error(
        "the MAC of journal section {0} does not match: the key is wrong or the journal was changed"
    )]
    JournalMac(u32),
    /// A journal entry is for a sector at which no block begins.
    #[error("an entry in journal section {section} is for sector {sector}, where no block begins")]
    JournalSector {
        /// The section.
        section: u32,
        /// The sector that the entry is for.
        sector: u64,
    },
    /// A journal entry's data does not match the tag beside it.
    #[error("the journal's data for sector {sector} does not match its tag")]
    JournalTag {
        /// The sector that the entry is for.
        sector: u64,
    },
}

/// What of dm-integrity is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// Tags inside the device's own sectors.
    #[error("inline tags (NVMe protection information)")]
    Inline,
    /// Another version of the format.
    #[error("version {0} of the format")]
    Version(u8),
    /// Flags that were not known when this was written.
    #[error("flags {0:#x}")]
    Flags(u32),
    /// A layout in which the kernel's tags and data overlap.
    #[error("an interleave of less than 128 sectors with the legacy padding")]
    NarrowLegacy,
    /// Tags cannot be computed anew without vouching for changed data.
    #[error(
        "recalculating keyed tags, which would vouch for data that was changed, unless the volume \
         has the HMAC fix and a journal MAC"
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
        "a bitmap of {0} bytes, more than 16 MiB: let the kernel close the volume, or open it in \
         recovery mode"
    )]
    BitmapSize(u64),
}

/// Parameters that do not fit together, or not the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Usage {
    /// A keyed algorithm without a key.
    #[error("the integrity algorithm needs a key")]
    KeyMissing,
    /// A key for an algorithm that has none.
    #[error("the integrity algorithm has no key")]
    KeyUnused,
    /// No block matches its tag.
    #[error(
        "no block that was tried matches its tag: the integrity algorithm or the key is another one"
    )]
    NothingMatches,
    /// The volume has a journal MAC, but no key for it was given.
    #[error("the volume has a journal MAC: its algorithm and key are needed")]
    JournalMacMissing,
    /// A journal MAC was given, but the volume has none.
    #[error("the volume has no journal MAC")]
    JournalMacUnused,
    /// The volume's tags are on a device of their own, which was not given.
    #[error("the volume's data is on a device of its own, which is needed too")]
    DataDeviceMissing,
    /// A second device was given, but the volume holds data and tags together.
    #[error("the volume holds its data itself: there is no data device")]
    DataDeviceUnused,
    /// An interleave was given for a volume whose tags are on a device of their own.
    #[error("tags on a device of their own are not interleaved")]
    InterleaveUnused,
}
