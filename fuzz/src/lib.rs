//! What targets share: a small volume, which those for volumes give parts of; compressed clusters; and verified reads.

pub mod cluster;
pub mod verified;

use std::{
    ops::ControlFlow,
    sync::{Arc, LazyLock},
};

use verimount_integrity::{
    BlockSize, Devices, Error, FormatOptions, Interleave, Mode, OpenOptions, TagSize, Volume,
    format,
};
use verimount_source::{MemoryStorage, ReadAt};

/// A sector in bytes.
pub const SECTOR: usize = 512;

/// The largest tag size: a metadata sector of the journal has room for one entry.
pub const TAG_SIZE: u16 = TagSize::MAX;

/// The entries of a journal section.
pub const SECTION_ENTRIES: usize = 8;

/// The sectors of a journal section.
pub const SECTION_SECTORS: usize = 2 * SECTION_ENTRIES;

/// The sectors of the journal.
pub const JOURNAL_SECTORS: usize = 3 * SECTION_SECTORS;

/// Where the journal begins, in bytes.
pub const JOURNAL: usize = 4096;

/// Sectors of an area's data.
const INTERLEAVE: u64 = 8;

/// Sectors of an area's tags.
const RUN: u64 = 8;

/// Areas of the volume with one device.
const AREAS: u64 = 4;

/// The modes that write.
pub const MODES: [Mode; 3] = [Mode::Journal, Mode::Bitmap, Mode::Direct];

/// The sectors of the volume with one device.
pub fn sectors() -> u64 {
    AREAS * INTERLEAVE
}

/// Where a sector of the volume with one device lies, in bytes.
pub fn data_offset(sector: u64) -> usize {
    let area = sector / INTERLEAVE;
    JOURNAL + (JOURNAL_SECTORS + ((area + 1) * RUN + sector) as usize) * SECTOR
}

/// What a volume is stored on: a device, and perhaps another one for the data.
pub struct Storage {
    /// The device with the superblock.
    pub metadata: Arc<MemoryStorage>,
    data: Option<Arc<MemoryStorage>>,
}

impl Storage {
    /// A fresh volume, all of whose blocks are zero.
    pub fn new(has_data_device: bool) -> Self {
        static ALONE: LazyLock<Vec<u8>> = LazyLock::new(|| Storage::format(false));
        static SPLIT: LazyLock<Vec<u8>> = LazyLock::new(|| Storage::format(true));
        if has_data_device {
            Self::of(SPLIT.clone(), true)
        } else {
            Self::of(ALONE.clone(), false)
        }
    }

    /// Opens the volume.
    pub fn open(&self, mode: Mode) -> Result<Volume, Error> {
        let options = OpenOptions {
            mode,
            allow_discards: true,
            cache_bytes: 0,
            ..OpenOptions::default()
        };
        Volume::open(self.devices(), &options)
    }

    /// The bytes of both devices.
    pub fn size(&self) -> u64 {
        self.metadata.size() + self.data.as_ref().map_or(0, ReadAt::size)
    }

    /// What the device with the superblock holds of a fresh volume.
    fn format(has_data_device: bool) -> Vec<u8> {
        let areas = AREAS * (RUN + INTERLEAVE);
        let storage = Self::of(
            vec![0; JOURNAL + (JOURNAL_SECTORS + areas as usize) * SECTOR],
            has_data_device,
        );
        let options = FormatOptions {
            block_size: BlockSize::SECTOR,
            tag_size: Some(TagSize::new(TAG_SIZE).expect("the largest")),
            interleave: (!has_data_device)
                .then(|| Interleave::new(INTERLEAVE).expect("a power of two")),
            journal_sectors: Some(JOURNAL_SECTORS as u64),
            // Tags that the targets can compute.
            hmac_fix: false,
            is_zero: true,
            ..FormatOptions::default()
        };
        let superblock = format(storage.devices(), &options, &mut |_| {
            ControlFlow::Continue(())
        });
        let size = superblock.expect("nothing fails").provided_data_sectors;
        assert_eq!(size, sectors());
        storage.metadata.to_vec()
    }

    fn of(metadata: Vec<u8>, has_data_device: bool) -> Self {
        let data = || Arc::new(MemoryStorage::new(vec![0; sectors() as usize * SECTOR]));
        Self {
            metadata: Arc::new(MemoryStorage::new(metadata)),
            data: has_data_device.then(data),
        }
    }

    fn devices(&self) -> Devices {
        let metadata = self.metadata.clone();
        match &self.data {
            Some(data) => Devices::with_data_device(metadata, data.clone()),
            None => Devices::new(metadata),
        }
    }
}

/// All bytes of a volume.
///
/// # Errors
/// As [`Volume::read_at`].
pub fn contents(volume: &Volume) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; volume.size() as usize];
    volume.read_at(&mut bytes, 0)?;
    Ok(bytes)
}
