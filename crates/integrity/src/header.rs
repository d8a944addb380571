//! Superblocks that are kept outside of their volumes, and what is left of a damaged one.

use verimount_source::ReadAt;
use zerocopy::FromBytes;

use crate::{
    Devices, Error, FormatOptions, Superblock, Usage,
    raw::{self, SUPERBLOCK_SIZE},
    superblock::{Salt, read_sector},
};

/// A volume's superblock that is kept elsewhere, to be used in the place of a damaged one.
///
/// What changes in use is not taken from it: an old note of a recalculation or a bitmap would give valid tags to
/// damaged data. What the journal holds is read from the volume.
#[derive(Debug, Clone)]
pub struct Header {
    /// As it was read, with its MAC.
    pub(crate) sector: [u8; raw::SECTOR],
    pub(crate) superblock: Superblock,
    /// The volume is read as if its journal were empty.
    pub(crate) ignores_journal: bool,
}

impl Header {
    /// Reads the superblock of a volume, or a copy of it.
    ///
    /// # Errors
    /// As [`Superblock::read`].
    pub fn read(device: &(impl ReadAt + ?Sized)) -> Result<Self, Error> {
        Self::of(read_sector(device)?)
    }

    /// The superblock that formatting with these options made. Its salt is taken from what is left of it.
    ///
    /// # Errors
    /// As [`format()`](crate::format()), and [`Usage::SaltLost`].
    pub fn rebuilt(devices: &Devices, options: &FormatOptions) -> Result<Self, Error> {
        let left = read_sector(devices.metadata())?;
        let left = raw::Superblock::read_from_prefix(&left);
        let salt = left.map_or(Salt::default(), |(left, _)| left.salt);
        if options.hmac_fix && salt == Salt::default() {
            return Err(Usage::SaltLost.into());
        }
        let superblock = options.superblock(devices, options.hmac_fix.then_some(salt))?;
        let mac = options.integrity.mac(&superblock.shape)?;
        Self::of(read_sector(&superblock.encode(mac.as_ref())[..])?)
    }

    fn of(sector: [u8; raw::SECTOR]) -> Result<Self, Error> {
        let superblock = Superblock {
            recalculation: None,
            dirty_bitmap: false,
            ..Superblock::parse(&sector)?
        };
        Ok(Self {
            sector,
            superblock,
            ignores_journal: false,
        })
    }

    /// As a file holds it.
    pub fn to_bytes(&self) -> [u8; SUPERBLOCK_SIZE] {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        bytes[..raw::SECTOR].copy_from_slice(&self.sector);
        bytes
    }

    /// The superblock that it stands for: nothing is to be recalculated.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    pub(crate) fn of_size(&self, provided_data_sectors: u64) -> Self {
        Self {
            superblock: self.superblock.clone().of_size(provided_data_sectors),
            ..*self
        }
    }
}
