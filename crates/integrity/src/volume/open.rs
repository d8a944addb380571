use std::{sync::Arc, time::Duration};

use crate::{
    Devices, Error, Integrity, Mode, Superblock, Usage, Volume, blocks::Blocks, geometry::Geometry,
    journal::Ring, mac::Mac, range_lock::RangeLocks, recalculation::Recalculation,
    storage::Storage, superblock::read_sector, tagger::Tagger,
};

use super::{Counters, RecentMismatches, SavedSuperblock, prepare::Unprepared};

/// How a volume is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The algorithms and keys that the volume was formatted with.
    pub integrity: Integrity,
    /// How data and tags stay consistent through a crash.
    pub mode: Mode,
    /// Whether blocks may be discarded. A block marked as discarded is then accepted whatever its
    /// data, and reads as zeros.
    pub allow_discards: bool,
    /// Whether to probe a few blocks, outside the regions that await recalculation, and refuse the
    /// volume if none matches its tag: the algorithm or the key is then most likely wrong. Recovery
    /// mode never probes.
    pub probe: bool,
    /// The size of the tag cache in bytes.
    pub cache_bytes: usize,
    /// How much of the journal may be kept in memory until it is written in place, in bytes. What is
    /// not in the journal yet takes a few MiB more.
    pub journal_bytes: usize,
    /// Whether to read each tag sector before it is first changed. This is never needed; it is for
    /// measuring the reads that the tag cache saves.
    pub tag_read_back: bool,
    /// The minimum time that bits stay set in bitmap mode after the last write to their regions.
    /// Setting a bit costs a durable write; each set bit is a region to recalculate after a crash.
    pub bitmap_clear_interval: Duration,
}

impl OpenOptions {
    /// Enough for the tags of 16 GiB, at 4 bytes for each 4096.
    pub const DEFAULT_CACHE_BYTES: usize = 16 << 20;

    /// Half of the largest journal that formatting makes by default.
    pub const DEFAULT_JOURNAL_BYTES: usize = 32 << 20;

    /// The kernel's default.
    pub const DEFAULT_BITMAP_CLEAR_INTERVAL: Duration = Duration::from_secs(10);
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            integrity: Integrity::default(),
            mode: Mode::default(),
            allow_discards: false,
            probe: true,
            cache_bytes: Self::DEFAULT_CACHE_BYTES,
            journal_bytes: Self::DEFAULT_JOURNAL_BYTES,
            tag_read_back: false,
            bitmap_clear_interval: Self::DEFAULT_BITMAP_CLEAR_INTERVAL,
        }
    }
}

impl Volume {
    /// Opens the volume on `devices`.
    ///
    /// # Errors
    /// [`Error::NotIntegrity`], [`Error::Corrupt`], [`Error::Unsupported`] or [`Error::TooSmall`]
    /// for the contents of the devices, [`Error::Usage`] for options that do not fit the volume,
    /// [`Error::Source`] and [`Error::Latched`].
    pub fn open(devices: Devices, options: &OpenOptions) -> Result<Self, Error> {
        let has_data_device = devices.has_data_device();
        let storage = Arc::new(Storage::new(devices));
        let (superblock, mac) = read_superblock(storage.devices(), options)?;
        match (superblock.shape.interleave, has_data_device) {
            (Some(_), true) => return Err(Usage::DataDeviceUnused.into()),
            (None, false) => return Err(Usage::DataDeviceMissing.into()),
            _ => {}
        }
        let geometry = Geometry::of(&superblock, storage.size())?;
        let tagger = Tagger::new(&options.integrity, &superblock)?;
        let ring = Ring::new(storage.clone(), &geometry, mac.clone(), superblock.salt);
        let mut blocks = Blocks::new(storage.clone(), geometry, tagger, options.cache_bytes);
        blocks.tags.reads_back = options.tag_read_back;
        let superblock = SavedSuperblock::new(storage, mac, superblock);
        let unprepared = Unprepared {
            blocks: &blocks,
            ring: ring.clone(),
            superblock: &superblock,
            may_recalculate: Recalculation::is_allowed(
                options.integrity.algorithm,
                superblock.get().has_hmac_fix(),
                superblock.get().shape.journal_mac,
            ),
            options,
        };
        let (consistency, recalculation) = unprepared.prepare()?;
        Ok(Volume {
            blocks,
            consistency,
            locks: RangeLocks::default(),
            recalculation,
            superblock,
            ring,
            allows_discards: options.allow_discards,
            counters: Counters::default(),
            recent_mismatches: RecentMismatches::default(),
            unflushed: Arc::default(),
        })
    }
}

fn read_superblock(
    devices: &Devices,
    options: &OpenOptions,
) -> Result<(Superblock, Option<Mac>), Error> {
    let (sector, superblock) = match devices.header() {
        Some(_) if !options.mode.is_read_only() => return Err(Usage::HeaderReadOnly.into()),
        Some(header) => (header.sector, header.superblock.clone()),
        None => {
            let sector = read_sector(devices.metadata())?;
            (sector, Superblock::parse(&sector)?)
        }
    };
    let mac = options.integrity.mac(&superblock.shape)?;
    if let (Some(mac), true) = (&mac, superblock.has_hmac_fix()) {
        mac.check_superblock(&sector)?;
    }
    Ok((superblock, mac))
}
