use std::{num::NonZeroU32, ops::ControlFlow, sync::Arc};

use rustix::{
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

use crate::{
    BlockSize, Devices, Error, Integrity, Interleave, Padding, SECTOR, Superblock, TagSize, Usage,
    blocks::Blocks,
    geometry::Geometry,
    journal::Ring,
    raw::SUPERBLOCK_SIZE,
    storage::Storage,
    superblock::{Salt, Shape},
};

/// How much of a new volume is tagged between two reports of progress, in sectors.
const STEP: u64 = 32768;

/// The memory for tags that wait to be written.
const CACHE_BYTES: usize = 4 << 20;

/// Told how many bytes more of the volume's data were worked through; says whether to go on.
pub type Progress<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;

/// What a new volume is to be.
#[derive(Debug, Clone)]
pub struct FormatOptions {
    /// What its blocks are checked with.
    pub integrity: Integrity,
    /// The size of the blocks that have a tag each.
    pub block_size: BlockSize,
    /// The size of a tag; none: that of the algorithm.
    pub tag_size: Option<TagSize>,
    /// How many sectors of data follow their tags; none: [`Interleave::DEFAULT`], or no interleave
    /// where tags are on a device of their own.
    pub interleave: Option<Interleave>,
    /// What the tags of an area are padded to.
    pub padding: Padding,
    /// The size of the journal in sectors; none: a 128th of the data, and at most 64 MiB.
    pub journal_sectors: Option<u64>,
    /// Whether blocks are hashed with a salt, and MACs cover where things lie.
    pub hmac_fix: bool,
    /// Sectors to leave alone at the beginning of the device.
    pub reserved_sectors: u64,
    /// The devices are known to hold nothing but zeros, as a new sparse file does: only what is not
    /// zero needs to be written.
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
            hmac_fix: true,
            reserved_sectors: 0,
            is_zero: false,
        }
    }
}

/// Makes `devices` a volume, all of whose blocks are zero and have their tags.
///
/// There is no volume before the superblock is written, which comes last. `progress` is told, now
/// and then, how many bytes more of the volume have their tags, and can end it there.
///
/// # Errors
/// [`Error::TooSmall`], [`Error::Usage`], [`Error::Unsupported`], [`Error::Random`],
/// [`Error::Latched`] or [`Error::Cancelled`].
pub fn format(
    devices: Devices,
    options: &FormatOptions,
    progress: &mut Progress<'_>,
) -> Result<Superblock, Error> {
    let superblock = options.superblock(&devices)?;
    let geometry = Geometry::largest(superblock.shape, options.reserved_sectors, devices.size())?;
    let superblock = Superblock {
        provided_data_sectors: geometry.provided_data_sectors(),
        ..superblock
    };
    let tagger = options.integrity.tagger(&superblock)?;
    let mac = options.integrity.mac(&superblock.shape)?;
    let storage = Arc::new(Storage::new(devices));

    // Whatever volume there was is none from here on, also if this is interrupted.
    let place = geometry.superblock_offset();
    storage.write_metadata_durable(&[0; SUPERBLOCK_SIZE], place)?;
    Ring::new(storage.clone(), &geometry, mac.clone(), superblock.salt).initialise()?;
    let blocks = Blocks::new(storage.clone(), geometry, tagger, CACHE_BYTES);
    write_zeros(&blocks, 0, options.is_zero, progress)?;
    blocks.flush()?;
    storage.write_metadata_durable(&superblock.encode(mac.as_ref()), place)?;
    Ok(superblock)
}

impl FormatOptions {
    /// The superblock of the new volume, but for its size.
    fn superblock(&self, devices: &Devices) -> Result<Superblock, Error> {
        let interleave = match (devices.has_data_device(), self.interleave) {
            (false, interleave) => Some(interleave.unwrap_or_default()),
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
        let journal_sections = Geometry::journal_sections(
            shape,
            self.journal_sectors,
            self.reserved_sectors,
            devices.size(),
        )?;
        Ok(Superblock {
            shape: Shape {
                journal_sections,
                ..shape
            },
            provided_data_sectors: 0,
            salt: self.hmac_fix.then(random_salt).transpose()?,
            recalculation: None,
            dirty_bitmap: false,
            log2_blocks_per_bitmap_bit: 0,
        })
    }
}

/// Makes all blocks from the sector `start` on zero, and gives them their tags.
pub(crate) fn write_zeros(
    blocks: &Blocks,
    start: u64,
    is_zero: bool,
    progress: &mut Progress<'_>,
) -> Result<(), Error> {
    let end = blocks.geometry.provided_data_sectors();
    for start in (start..end).step_by(STEP as usize) {
        let range = start..end.min(start + STEP);
        match is_zero {
            true => blocks.set_zero_tags(range.clone())?,
            false => blocks.zero(range.clone())?,
        }
        if progress((range.end - range.start) * SECTOR).is_break() {
            return Err(Error::Cancelled);
        }
    }
    Ok(())
}

fn random_salt() -> Result<Salt, Error> {
    let mut salt = Salt::default();
    // As few bytes as these always come at once.
    match getrandom(&mut salt, GetRandomFlags::empty()) {
        Ok(len) if len == salt.len() => Ok(salt),
        Ok(_) => Err(Error::Random(Errno::IO.into())),
        Err(error) => Err(Error::Random(error.into())),
    }
}
