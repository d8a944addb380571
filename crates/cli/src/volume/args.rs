use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result};
use clap::Args;
use rustix::process::configure_io_flusher_behavior;
use verimount_integrity::{Algorithm, Devices, Integrity, Key, Mode, OpenOptions, Volume};
use verimount_names::printable;
use verimount_source::{Counting, FileStorage};

use crate::options::parse_size;

use super::opened::OpenedVolume;

/// A volume's device, with an account of what is asked of it.
pub(super) type Device = Arc<Counting<FileStorage>>;

/// Where a volume is.
#[derive(Args)]
pub(super) struct DeviceArgs {
    /// The volume: a regular file or block device
    #[arg(value_name = "VOLUME")]
    pub(super) volume: PathBuf,
    /// Where the data is, if VOLUME has only the superblock, the journal and the tags
    #[arg(long, value_name = "FILE")]
    data_device: Option<PathBuf>,
}

impl DeviceArgs {
    /// The volume's name, as it is shown.
    pub(super) fn shown(&self) -> String {
        printable(&self.volume).to_string()
    }

    /// Opens the devices, the one of the volume first, and keeps all others from using them.
    pub(super) fn open(&self) -> Result<Vec<Device>> {
        [Some(&self.volume), self.data_device.as_ref()]
            .into_iter()
            .flatten()
            .map(|path| open_device(path))
            .collect()
    }

    /// Each device's path, in the order of [`Self::open`].
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let volume = Some(self.volume.as_path());
        volume.into_iter().chain(self.data_device.as_deref())
    }
}

fn open_device(path: &Path) -> Result<Device> {
    let device = FileStorage::open(path).with_context(|| printable(path).to_string())?;
    Ok(Arc::new(Counting::new(device)))
}

/// What a volume on devices is, which are given as [`DeviceArgs::open`] gives them.
pub(super) fn devices_of(devices: &[Device]) -> Devices {
    match devices {
        [metadata, data] => Devices::with_data_device(metadata.clone(), data.clone()),
        _ => Devices::new(devices[0].clone()),
    }
}

/// What a volume's blocks are checked with.
#[derive(Args)]
pub(super) struct IntegrityArgs {
    /// The integrity algorithm: crc32c, crc32, xxhash64, sha1, sha256, sha512, blake2b-256,
    /// blake2s-256, hmac-sha256 or hmac-sha512
    #[arg(long, value_name = "ALGORITHM", default_value_t)]
    integrity: Algorithm,
    /// The key of an hmac: all bytes of this file
    #[arg(long, value_name = "FILE")]
    integrity_key_file: Option<PathBuf>,
    /// What the journal is protected with: hmac-sha256 or hmac-sha512
    #[arg(
        long,
        value_name = "ALGORITHM",
        requires = "journal_integrity_key_file"
    )]
    journal_integrity: Option<Algorithm>,
    /// Its key: all bytes of this file
    #[arg(long, value_name = "FILE", requires = "journal_integrity")]
    journal_integrity_key_file: Option<PathBuf>,
}

impl IntegrityArgs {
    pub(super) fn integrity(&self) -> Result<Integrity> {
        let journal = self
            .journal_integrity
            .zip(self.journal_integrity_key_file.as_ref());
        Ok(Integrity {
            algorithm: self.integrity,
            key: self
                .integrity_key_file
                .as_deref()
                .map(read_key)
                .transpose()?,
            journal_mac: journal
                .map(|(algorithm, path)| Ok::<_, anyhow::Error>((algorithm, read_key(path)?)))
                .transpose()?,
        })
    }
}

fn read_key(path: &Path) -> Result<Key> {
    Key::read(path).with_context(|| printable(path).to_string())
}

/// How a volume is used.
#[derive(Args)]
pub(super) struct UseArgs {
    #[command(flatten)]
    pub(super) devices: DeviceArgs,
    #[command(flatten)]
    integrity: IntegrityArgs,
    /// What is done to survive a crash: journal writes all twice; bitmap computes tags anew of what
    /// was being written; direct leaves that unreadable; recovery only reads, and checks nothing
    #[arg(long, value_name = "MODE", default_value_t)]
    mode: Mode,
    /// Let users discard blocks; then they read as zeros. Must always be said of a volume of which
    /// any were
    #[arg(long)]
    pub(super) allow_discards: bool,
    /// Memory for tags
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    tag_cache: u64,
    /// For measuring: read tags before they are changed, which nothing needs
    #[arg(long)]
    tag_read_back: bool,
}

impl UseArgs {
    /// Opens the volume, to be used by threads that this one starts from now on.
    pub(super) fn open(&self) -> Result<OpenedVolume> {
        // Memory that they need must not be made free by writing to the disk that they serve, nor
        // may they wait until less is to be written there. It takes CAP_SYS_RESOURCE.
        let _ = configure_io_flusher_behavior(true);
        let options = OpenOptions {
            integrity: self.integrity.integrity()?,
            mode: self.mode,
            allow_discards: self.allow_discards,
            cache_bytes: usize::try_from(self.tag_cache).unwrap_or(usize::MAX),
            tag_read_back: self.tag_read_back,
            ..OpenOptions::default()
        };
        let devices = self.devices.open()?;
        let volume =
            Volume::open(devices_of(&devices), &options).with_context(|| self.devices.shown())?;
        Ok(OpenedVolume::new(volume, devices))
    }
}
