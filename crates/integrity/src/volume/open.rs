use std::sync::{Arc, Mutex};

use crate::{
    Devices, Error, Integrity, Mode, SECTOR, Superblock, Usage, Volume,
    blocks::Blocks,
    geometry::Geometry,
    journal::{Journal, Ring, replay},
    mac::Mac,
    range_lock::RangeLocks,
    raw,
    storage::Storage,
};

use super::{Consistency, Counters};

/// How a volume is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// What its blocks are checked with: what it was formatted with.
    pub integrity: Integrity,
    /// What is done to survive a crash.
    pub mode: Mode,
    /// The sectors at the beginning of the device that formatting left alone.
    pub reserved_sectors: u64,
    /// Whether blocks may be discarded. A block that is marked as discarded then passes with any
    /// contents, and reads as zeros.
    pub allow_discards: bool,
    /// The memory for tags, in bytes.
    pub cache_bytes: usize,
}

impl OpenOptions {
    /// Holds the tags of 16 GiB with 4 bytes for each 4096.
    pub const DEFAULT_CACHE_BYTES: usize = 16 << 20;
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            integrity: Integrity::default(),
            mode: Mode::default(),
            reserved_sectors: 0,
            allow_discards: false,
            cache_bytes: Self::DEFAULT_CACHE_BYTES,
        }
    }
}

pub(super) fn open(devices: Devices, options: &OpenOptions) -> Result<Volume, Error> {
    let has_data_device = devices.has_data_device();
    let storage = Arc::new(Storage::new(devices));
    let (superblock, mac) = read_superblock(&storage, options)?;
    match (superblock.interleave(), has_data_device) {
        (Some(_), true) => return Err(Usage::DataDeviceUnused.into()),
        (None, false) => return Err(Usage::DataDeviceMissing.into()),
        _ => {}
    }
    let geometry = Geometry::of(&superblock, options.reserved_sectors, storage.size())?;
    let tagger = options.integrity.tagger(&superblock)?;
    let ring = Ring::new(storage.clone(), &geometry, mac, superblock.salt);
    let blocks = Blocks::new(storage, geometry, tagger, options.cache_bytes);
    let consistency = match options.mode {
        Mode::Journal => {
            let replayed = replay(&ring, &blocks, true)?;
            let journal = Journal::new(ring, replayed, &blocks);
            Consistency::Journal(Box::new(journal))
        }
        Mode::Direct => {
            replay(&ring, &blocks, false)?;
            Consistency::Direct
        }
        Mode::RecoveryUnverified => Consistency::RecoveryUnverified,
    };
    Ok(Volume {
        blocks,
        consistency,
        locks: RangeLocks::default(),
        superblock: Mutex::new(superblock),
        allows_discards: options.allow_discards,
        counters: Counters::default(),
    })
}

fn read_superblock(
    storage: &Storage,
    options: &OpenOptions,
) -> Result<(Superblock, Option<Mac>), Error> {
    let mut sector = [0; raw::SECTOR];
    let available = storage.size().metadata;
    if options.reserved_sectors >= available {
        return Err(Error::TooSmall { available });
    }
    storage.read_metadata(&mut sector, options.reserved_sectors * SECTOR)?;
    let superblock = Superblock::parse(&sector)?;
    let mac = options.integrity.mac(&superblock.shape)?;
    if let (Some(mac), true) = (&mac, superblock.has_hmac_fix()) {
        mac.check_superblock(&sector)?;
    }
    Ok((superblock, mac))
}
