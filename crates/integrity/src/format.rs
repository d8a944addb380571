use std::{num::NonZeroU32, sync::Arc};

use rustix::{
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

use verimount_source::Progress;

use crate::{
    BlockSize, Devices, DiskSize, Error, Integrity, Interleave, Mode, Padding, SECTOR, Superblock,
    TagSize, Unsupported, Usage,
    blocks::{Blocks, parts},
    geometry::{Geometry, StorageSize},
    journal::Ring,
    raw::SUPERBLOCK_SIZE,
    recalculation::Recalculation,
    storage::Storage,
    superblock::{Salt, Shape},
    tagger::Tagger,
};

/// How many sectors of a new volume are tagged between two calls of the progress callback.
const STEP: u64 = 32768;

/// The size of the tag cache while formatting, in bytes.
const CACHE_BYTES: usize = 4 << 20;

/// The parameters of a new volume.
#[derive(Debug, Clone)]
pub struct FormatOptions {
    /// The algorithms and keys that verify the volume.
    pub integrity: Integrity,
    /// The size of a block; each block has one tag.
    pub block_size: BlockSize,
    /// The size of a tag; `None`: the algorithm's digest size.
    pub tag_size: Option<TagSize>,
    /// The number of data sectors between two runs of tags; `None`: [`Interleave::DEFAULT`], or no
    /// interleave with a separate data device.
    pub interleave: Option<Interleave>,
    /// The padding of each area's tags.
    pub padding: Padding,
    /// The size of the journal in sectors; `None`: 1/128 of the data, at most 64 MiB.
    pub journal_sectors: Option<u64>,
    /// The size of the disk; `None`: the largest that the devices allow.
    pub disk_size: Option<DiskSize>,
    /// Whether to use the HMAC fix: blocks are hashed with a salt, and MACs also cover positions
    /// and the superblock.
    pub hmac_fix: bool,
    /// The devices are known to be all zeros, as a new sparse file is, so zeros need not be
    /// written.
    pub is_zero: bool,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            integrity: Integrity::default(),
            block_size: BlockSize::DEFAULT,
            tag_size: None,
            interleave: None,
            padding: Padding::default(),
            journal_sectors: None,
            disk_size: None,
            hmac_fix: true,
            is_zero: false,
        }
    }
}

/// Formats `devices` as a volume whose blocks are all zero and have valid tags.
///
/// The superblock is written last; before that there is no valid volume. `progress` is called now
/// and then with the number of bytes tagged since the last call, and can cancel.
///
/// # Errors
/// [`Error::TooSmall`], [`Error::DiskTooLarge`], [`Error::Usage`], [`Error::Unsupported`], [`Error::Random`],
/// [`Error::Latched`] or [`Error::Cancelled`].
pub fn format(
    devices: Devices,
    options: &FormatOptions,
    progress: &mut Progress<'_>,
) -> Result<Superblock, Error> {
    let salt = options.hmac_fix.then(random_salt).transpose()?;
    let superblock = options.superblock(&devices, salt)?;
    let geometry = Geometry::of(&superblock, devices.size())?;
    let tagger = Tagger::new(&options.integrity, &superblock)?;
    let mac = options.integrity.mac(&superblock.shape)?;
    let storage = Arc::new(Storage::new(devices));

    // From here on the old volume is invalid, even if formatting is interrupted.
    storage.write_metadata_durable(&[0; SUPERBLOCK_SIZE], 0)?;
    Ring::new(storage.clone(), &geometry, mac.clone(), superblock.salt).initialise()?;
    let blocks = Blocks::new(storage.clone(), geometry, tagger, CACHE_BYTES);
    write_zeros(&blocks, 0, options.is_zero, progress)?;
    blocks.flush()?;
    storage.write_metadata_durable(&superblock.encode(mac.as_ref()), 0)?;
    Ok(superblock)
}

impl FormatOptions {
    /// Whether the new volume could be used in a mode, which is not stored in it.
    ///
    /// # Errors
    /// [`Unsupported::KeyedRecalculation`] for [`Mode::Bitmap`], which recalculates tags after a crash.
    pub fn check_mode(&self, mode: Mode) -> Result<(), Unsupported> {
        let algorithm = self.integrity.algorithm;
        let has_mac = self.integrity.journal_mac.is_some();
        let may_recalculate = Recalculation::is_allowed(algorithm, self.hmac_fix, has_mac);
        if mode == Mode::Bitmap && !may_recalculate {
            Err(Unsupported::KeyedRecalculation)
        } else {
            Ok(())
        }
    }

    /// The size in bytes of the smallest single device for a disk of `disk`.
    ///
    /// # Errors
    /// As [`format()`] for options that no device allows.
    pub fn storage_needed(&self, disk: DiskSize) -> Result<u64, Error> {
        let size = StorageSize {
            metadata: disk.sectors(),
            data: disk.sectors(),
        };
        let shape = self.shape(false, size)?;
        let geometry = Geometry::sized(shape, disk.sectors())?;
        Ok(geometry.storage_needed())
    }

    /// The superblock of a new volume with this salt.
    pub(crate) fn superblock(
        &self,
        devices: &Devices,
        salt: Option<Salt>,
    ) -> Result<Superblock, Error> {
        let size = devices.size();
        let size = StorageSize {
            data: self.disk_size.map_or(size.data, DiskSize::sectors),
            ..size
        };
        let shape = self.shape(devices.has_data_device(), size)?;
        let geometry = Geometry::wanted(shape, self.disk_size, devices.size())?;
        Ok(Superblock {
            shape,
            provided_data_sectors: geometry.provided_data_sectors,
            salt,
            recalculation: None,
            dirty_bitmap: false,
            log2_blocks_per_bitmap_bit: 0,
        })
    }

    /// The shape of a volume for devices of this size, of which `data` is for the disk.
    fn shape(&self, has_data_device: bool, size: StorageSize) -> Result<Shape, Error> {
        let interleave = match (has_data_device, self.interleave) {
            (false, interleave) => Some(interleave.unwrap_or(Interleave::DEFAULT)),
            (true, None) => None,
            (true, Some(_)) => return Err(Usage::InterleaveUnused.into()),
        };
        let tag_size = match self.tag_size {
            Some(tag_size) => tag_size,
            None => TagSize::new(self.integrity.algorithm.digest_size())?,
        };
        let shape = Shape {
            block_size: self.block_size,
            tag_size,
            interleave,
            padding: self.padding,
            journal_sections: NonZeroU32::MIN,
            journal_mac: self.integrity.journal_mac.is_some(),
        };
        let journal_sections = Geometry::journal_sections(shape, self.journal_sectors, size)?;
        Ok(Shape {
            journal_sections,
            ..shape
        })
    }
}

/// Zeroes all blocks from the sector `start` on, and sets their tags.
pub(crate) fn write_zeros(
    blocks: &Blocks,
    start: u64,
    is_zero: bool,
    progress: &mut Progress<'_>,
) -> Result<(), Error> {
    let end = blocks.geometry.provided_data_sectors;
    for range in parts(start..end, STEP) {
        if is_zero {
            blocks.set_zero_tags(range.clone())?;
        } else {
            blocks.zero(range.clone())?;
        }
        if progress((range.end - range.start) * SECTOR).is_break() {
            return Err(Error::Cancelled);
        }
    }
    Ok(())
}

fn random_salt() -> Result<Salt, Error> {
    let mut salt = Salt::default();
    // A request this small is never split.
    match getrandom(&mut salt, GetRandomFlags::empty()) {
        Ok(len) if len == salt.len() => Ok(salt),
        Ok(_) => Err(Error::Random(Errno::IO.into())),
        Err(error) => Err(Error::Random(error.into())),
    }
}
