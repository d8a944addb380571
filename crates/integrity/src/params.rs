use thiserror::Error;
use verimount_names::named;

/// The size in bytes of a sector, the unit of all positions in the format.
pub const SECTOR: u64 = 512;

/// A parameter value that dm-integrity does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParamError {
    /// An invalid block size.
    #[error("the sector size must be 512, 1024, 2048 or 4096")]
    BlockSize,
    /// An invalid tag size.
    #[error("a tag must have 1 to {} bytes", TagSize::MAX)]
    TagSize,
    /// An invalid interleave.
    #[error("the interleave must be a power of two from 8 to 2^31 sectors")]
    Interleave,
    /// An invalid disk size.
    #[error(
        "the size of a disk must be a multiple of {} bytes, and not 0",
        DiskSize::UNIT
    )]
    DiskSize,
    /// A key that is empty or too long.
    #[error("a key must have 1 to {} bytes", crate::Key::MAX)]
    Key,
}

/// The size of a block: 512, 1024, 2048 or 4096 bytes. Each block has one tag. Users and the kernel
/// call it the volume's sector size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockSize {
    log2_sectors: u8,
}

impl BlockSize {
    /// 4096 bytes: the size of a page, with the least metadata.
    pub const DEFAULT: Self = Self { log2_sectors: 3 };

    /// 512 bytes: one sector.
    pub const SECTOR: Self = Self { log2_sectors: 0 };

    /// The block size of `bytes` bytes.
    ///
    /// # Errors
    /// [`ParamError::BlockSize`] unless it is 512, 1024, 2048 or 4096.
    pub const fn new(bytes: u64) -> Result<Self, ParamError> {
        match bytes {
            512 | 1024 | 2048 | 4096 => Ok(Self {
                log2_sectors: (bytes / SECTOR).ilog2() as u8,
            }),
            _ => Err(ParamError::BlockSize),
        }
    }

    /// The block size of 2 to the power of `log2` sectors; `None` from 16 sectors on.
    pub(crate) const fn from_log2_sectors(log2: u8) -> Option<Self> {
        match log2 {
            0..=3 => Some(Self { log2_sectors: log2 }),
            _ => None,
        }
    }

    /// The base-2 logarithm of the size in sectors.
    pub const fn log2_sectors(self) -> u8 {
        self.log2_sectors
    }

    /// The size in sectors.
    pub const fn sectors(self) -> u64 {
        1 << self.log2_sectors
    }

    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        512 << self.log2_sectors
    }
}

/// The size of a volume's disk: a multiple of 4096 bytes, as in the kernel, whatever the block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DiskSize {
    sectors: u64,
}

impl DiskSize {
    /// All sizes are multiples of this many bytes.
    pub const UNIT: u64 = 4096;

    /// The size of `bytes` bytes.
    ///
    /// # Errors
    /// [`ParamError::DiskSize`] for 0 and unless it is a multiple of [`Self::UNIT`].
    pub const fn new(bytes: u64) -> Result<Self, ParamError> {
        if bytes > 0 && bytes.is_multiple_of(Self::UNIT) {
            Ok(Self {
                sectors: bytes / SECTOR,
            })
        } else {
            Err(ParamError::DiskSize)
        }
    }

    /// The size in sectors.
    pub(crate) const fn sectors(self) -> u64 {
        self.sectors
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.sectors * SECTOR
    }
}

/// The size of a tag. A longer hash is truncated; a shorter one is padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TagSize(u16);

impl TagSize {
    /// The largest tag size in bytes: a journal entry for a block of 4096 bytes must fit in one
    /// sector.
    pub const MAX: u16 = 424;

    /// The size of a full SHA-256 digest.
    pub(crate) const SHA256: Self = Self(32);

    /// The tag size of `bytes` bytes.
    ///
    /// # Errors
    /// [`ParamError::TagSize`] for 0 and above [`Self::MAX`].
    pub const fn new(bytes: u16) -> Result<Self, ParamError> {
        match bytes {
            1..=Self::MAX => Ok(Self(bytes)),
            _ => Err(ParamError::TagSize),
        }
    }

    /// The size in bytes.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The size in bytes, for lengths in memory.
    pub(crate) const fn bytes(self) -> usize {
        self.0 as usize
    }
}

/// The number of data sectors between two runs of tags: a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interleave {
    log2_sectors: u8,
}

impl Interleave {
    /// 32768 sectors (16 MiB).
    pub const DEFAULT: Self = Self { log2_sectors: 15 };

    /// The interleave of `sectors` sectors.
    ///
    /// # Errors
    /// [`ParamError::Interleave`] unless it is a power of two from 8 to 2^31.
    pub const fn new(sectors: u64) -> Result<Self, ParamError> {
        if sectors.is_power_of_two() {
            Self::from_log2_sectors(sectors.trailing_zeros() as u8)
        } else {
            Err(ParamError::Interleave)
        }
    }

    /// The interleave of 2 to the power of `log2` sectors.
    ///
    /// # Errors
    /// [`ParamError::Interleave`] unless `log2` is 3 to 31.
    pub const fn from_log2_sectors(log2: u8) -> Result<Self, ParamError> {
        match log2 {
            3..=31 => Ok(Self { log2_sectors: log2 }),
            _ => Err(ParamError::Interleave),
        }
    }

    /// The base-2 logarithm of the size in sectors.
    pub const fn log2_sectors(self) -> u8 {
        self.log2_sectors
    }
}

/// The alignment to which the tags of one area are padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Padding {
    /// 128 KiB, for kernels before 5.12.
    Legacy,
    /// 4 KiB.
    #[default]
    Fixed,
}

impl Padding {
    /// The padding in bytes.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Legacy => 128 << 10,
            Self::Fixed => 4 << 10,
        }
    }
}

named! {
    /// How a volume keeps data and tags consistent when the machine crashes. The names are those on the command line.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub enum Mode {
        /// Everything is written twice, first to a journal. A crash loses no flushed block; each other
        /// block has its old or its new contents.
        #[default]
        Journal = "journal",
        /// Regions are marked in a bitmap before they are written. After a crash the tags of marked
        /// regions are recalculated from whatever data is there.
        Bitmap = "bitmap",
        /// No crash consistency: after a crash, blocks that were being written fail verification, so that what
        /// they held before is lost, too, even if it was flushed.
        Direct = "direct",
        /// Nothing is written, not even what a crash has left to be done: what the journal holds is read from
        /// memory, and blocks whose tags have to be recalculated are not checked.
        ReadOnly = "read-only",
        /// Read-only, without replaying the journal and *without verification*: for rescuing data from
        /// a volume that no other mode can open.
        RecoveryUnverified = "recovery",
    }
}

impl Mode {
    /// Whether nothing can be changed, so that a volume's devices need not be open for writing.
    pub const fn is_read_only(self) -> bool {
        matches!(self, Self::ReadOnly | Self::RecoveryUnverified)
    }
}
