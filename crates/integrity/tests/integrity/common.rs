use std::sync::Arc;

use verimount_integrity::{
    Algorithm, Devices, Error, FormatOptions, Integrity, Key, Mode, OpenOptions, Superblock, Volume,
};
use verimount_source::{Counting, MemoryStorage};
use verimount_testkit::go_on;

pub(crate) const KB: u64 = 1 << 10;
pub(crate) const MB: u64 = 1 << 20;

/// Memory that counts its reads and writes.
pub(crate) type Counted = Arc<Counting<MemoryStorage>>;

/// Zeroed storage.
pub(crate) fn memory(size: u64) -> Counted {
    storage_of(vec![0; size as usize])
}

pub(crate) fn storage_of(bytes: Vec<u8>) -> Counted {
    Arc::new(Counting::new(MemoryStorage::new(bytes)))
}

/// A volume's devices and its format options.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) metadata: Counted,
    pub(crate) data: Option<Counted>,
    pub(crate) options: FormatOptions,
    pub(crate) superblock: Superblock,
}

impl World {
    /// A new volume on one device of `size` bytes.
    pub(crate) fn new(size: u64, options: FormatOptions) -> Result<Self, Error> {
        Self::on(memory(size), None, options)
    }

    /// A new volume on one or two zeroed devices.
    pub(crate) fn on(
        metadata: Counted,
        data: Option<Counted>,
        options: FormatOptions,
    ) -> Result<Self, Error> {
        let options = FormatOptions {
            is_zero: true,
            ..options
        };
        let devices = devices(&metadata, data.as_ref());
        let superblock = verimount_integrity::format(devices, &options, &mut go_on)?;
        Ok(Self {
            metadata,
            data,
            options,
            superblock,
        })
    }

    pub(crate) fn devices(&self) -> Devices {
        devices(&self.metadata, self.data.as_ref())
    }

    pub(crate) fn open_options(&self, mode: Mode) -> OpenOptions {
        OpenOptions {
            integrity: self.options.integrity.clone(),
            mode,
            ..OpenOptions::default()
        }
    }

    pub(crate) fn open(&self, mode: Mode) -> Volume {
        Volume::open(self.devices(), &self.open_options(mode)).unwrap()
    }
}

fn devices(metadata: &Counted, data: Option<&Counted>) -> Devices {
    match data {
        Some(data) => Devices::with_data_device(metadata.clone(), data.clone()),
        None => Devices::new(metadata.clone()),
    }
}

/// The algorithm, with a key if it needs one.
pub(crate) fn integrity(algorithm: Algorithm) -> Integrity {
    Integrity {
        algorithm,
        key: algorithm.is_keyed().then(|| key(1)),
        journal_mac: None,
    }
}

pub(crate) fn key(byte: u8) -> Key {
    Key::new(vec![byte; 32]).unwrap()
}

/// All bytes of a volume.
pub(crate) fn contents(volume: &Volume) -> Vec<u8> {
    let mut bytes = vec![0; volume.size() as usize];
    volume.read_at(&mut bytes, 0).unwrap();
    bytes
}
