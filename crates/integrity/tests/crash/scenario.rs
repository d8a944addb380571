//! A volume and the actions on it, generated from a seed.

use std::{ops::Range, sync::Arc, time::Duration};

use verimount_integrity::{
    Algorithm, BlockSize, Devices, FormatOptions, Integrity, Interleave, Key, Mode, OpenOptions,
    TagSize, Volume, format,
};
use verimount_source::{MemoryStorage, WriteAt};
use verimount_testkit::{Random, Recording, go_on};

use crate::SECTOR;

/// The approximate number of data sectors of a volume.
const DATA_SECTORS: u64 = 96;

/// The writable modes.
pub(crate) const MODES: [Mode; 3] = [Mode::Journal, Mode::Bitmap, Mode::Direct];

/// An action on a volume.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Write(Range<usize>),
    Zero(Range<usize>),
    Discard(Range<usize>),
    Flush,
    /// Finish a pending recalculation.
    Recalculate,
    /// Durably recalculate the tags of these sectors, whatever data they hold.
    Accept(Range<usize>),
    /// Close the volume, and open it in this mode.
    Reopen(Mode),
}

/// A volume: its format and open options. It is small, so that little work suffices to wrap the
/// journal, touch all areas and overflow the tag cache.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// The mode in which it is first opened and, in most cases, reopened.
    pub(crate) mode: Mode,
    pub(crate) options: FormatOptions,
    /// The sizes of the devices in sectors: the one with the superblock, and an optional data
    /// device.
    sizes: Vec<u64>,
    bitmap_clear_interval: Duration,
    /// The blocks per bit of the bitmap. With the default, one bit would cover more than the
    /// volume.
    log2_blocks_per_bit: Option<u8>,
}

impl Scenario {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mode = MODES[(seed % 3) as usize];
        let block_size = BlockSize::new(random.choose(&[512, 512, 1024, 4096])).unwrap();
        let tag_size = random.choose(&[4, 32, 100, 424]);
        let has_data_device = random.below(3) == 0;
        let has_mac = random.below(4) == 0;
        let log2_interleave = random.choose(&[3, 5]);
        let journal = journal_sectors(block_size, tag_size, has_mac, 1 + random.below(5) as u64);
        let areas = DATA_SECTORS >> log2_interleave;
        let area_tags = (u64::from(tag_size) << log2_interleave) / block_size.sectors();
        let tags = areas * area_tags.next_multiple_of(4096) / SECTOR as u64;
        let sizes = if has_data_device {
            // The kernel requires room for a whole buffer of up to 128 sectors.
            vec![8 + journal + tags.next_multiple_of(128), DATA_SECTORS]
        } else {
            vec![8 + journal + tags + DATA_SECTORS]
        };
        let options = FormatOptions {
            integrity: Integrity {
                journal_mac: has_mac
                    .then(|| (Algorithm::HmacSha256, Key::new(vec![9; 32]).unwrap())),
                ..Integrity::default()
            },
            block_size,
            tag_size: Some(TagSize::new(tag_size).unwrap()),
            interleave: (!has_data_device)
                .then(|| Interleave::from_log2_sectors(log2_interleave).unwrap()),
            journal_sectors: Some(journal),
            hmac_fix: has_mac || random.coin(),
            is_zero: true,
            ..FormatOptions::default()
        };
        Self {
            mode,
            options,
            sizes,
            bitmap_clear_interval: random.choose(&[Duration::ZERO, Duration::MAX]),
            // This patches the superblock's bytes, which is possible only without a MAC.
            log2_blocks_per_bit: (mode == Mode::Bitmap && !has_mac && random.coin()).then_some(2),
        }
    }

    /// The contents of freshly formatted devices: all blocks are zero.
    pub(crate) fn formatted(&self) -> Vec<Vec<u8>> {
        let memory = Memory::new(self.empty());
        format(memory.devices(), &self.options, &mut go_on).unwrap();
        let mut devices = memory.contents();
        if let Some(log2) = self.log2_blocks_per_bit {
            // Mark the volume as in use in bitmap mode. The bitmap's contents do not matter yet.
            devices[0][24] |= 4;
            devices[0][29] = log2;
        }
        devices
    }

    /// The contents of the devices before formatting.
    pub(crate) fn empty(&self) -> Vec<Vec<u8>> {
        let bytes = |sectors: &u64| vec![0; *sectors as usize * SECTOR];
        self.sizes.iter().map(bytes).collect()
    }

    pub(crate) fn open(&self, devices: Devices, mode: Mode) -> Volume {
        Volume::open(devices, &self.open_options(mode)).unwrap()
    }

    pub(crate) fn open_options(&self, mode: Mode) -> OpenOptions {
        OpenOptions {
            integrity: self.options.integrity.clone(),
            mode,
            allow_discards: true,
            cache_bytes: 0,
            bitmap_clear_interval: self.bitmap_clear_interval,
            ..OpenOptions::default()
        }
    }

    pub(crate) fn block_sectors(&self) -> usize {
        self.options.block_size.sectors() as usize
    }

    /// The actions on a volume of `sectors` sectors between two crashes.
    pub(crate) fn actions(&self, sectors: usize, random: &mut Random) -> Vec<Action> {
        // The last part is never written, so that an open volume always has blocks that match.
        let used = sectors * 3 / 4;
        let count = 4 + random.below(10);
        let mut actions = Vec::new();
        for _ in 0..count {
            let start = random.below(used);
            let mut range = start..used.min(start + 1 + random.below(14));
            let blocks = range.start - range.start % self.block_sectors()
                ..range.end.next_multiple_of(self.block_sectors());
            if random.coin() {
                range = blocks.clone();
            }
            actions.push(match random.below(36) {
                0..18 => Action::Write(range),
                18..20 => Action::Zero(range),
                20..22 => Action::Discard(range),
                22..31 => Action::Flush,
                31..34 => Action::Recalculate,
                34 => Action::Accept(blocks),
                _ => Action::Reopen(random.choose(&[self.mode, self.mode, Mode::Journal])),
            });
        }
        actions
    }
}

/// The size in sectors of a journal of `sections` sections, computed from the format.
fn journal_sectors(block_size: BlockSize, tag_size: u16, has_mac: bool, sections: u64) -> u64 {
    let entry = (8 + 8 * block_size.sectors() + u64::from(tag_size)).next_multiple_of(8);
    let room = if has_mac { 496 } else { 504 };
    sections * (8 + room / entry * 8 * block_size.sectors())
}

/// Devices that never fail.
pub(crate) struct Memory(Vec<Arc<MemoryStorage>>);

impl Memory {
    pub(crate) fn new(contents: Vec<Vec<u8>>) -> Self {
        let device = |bytes| Arc::new(MemoryStorage::new(bytes));
        Self(contents.into_iter().map(device).collect())
    }

    pub(crate) fn devices(&self) -> Devices {
        in_order(self.0.iter().cloned())
    }

    pub(crate) fn contents(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|device| device.to_vec()).collect()
    }
}

/// The devices of a recording, for a volume.
pub(crate) fn devices_of(recording: &Recording) -> Devices {
    in_order(recording.devices())
}

/// A volume's devices, in the order of [`Scenario`]'s sizes.
pub(crate) fn in_order<D: WriteAt + 'static>(mut devices: impl Iterator<Item = Arc<D>>) -> Devices {
    let metadata = devices.next().expect("a volume has a device");
    match devices.next() {
        Some(data) => Devices::with_data_device(metadata, data),
        None => Devices::new(metadata),
    }
}
