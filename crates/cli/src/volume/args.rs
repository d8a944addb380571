use std::{
    io::{self, ErrorKind},
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use rustix::process::configure_io_flusher_behavior;
use verimount_integrity::{
    Algorithm, CommitTimer, Devices, DiskSize, Integrity, Key, Mode, OpenOptions, Volume,
};
use verimount_names::printable;
use verimount_source::{Counting, FileStorage};

use crate::{
    message::say,
    options::{one_of, parse_size},
};

use super::opened::OpenedVolume;

/// How long to wait for a volume in use to be closed. Writing its pending data takes seconds.
const CLOSING: Duration = Duration::from_secs(5);

/// The interval between attempts to open it.
const PAUSE: Duration = Duration::from_millis(20);

/// The default of `--commit-time`, in milliseconds.
const DEFAULT_COMMIT_TIME: NonZeroU32 =
    NonZeroU32::new(CommitTimer::DEFAULT_TIME.as_millis() as u32).unwrap();

/// A volume's device, with statistics of its requests.
pub(super) type Device = Arc<Counting<FileStorage>>;

/// The devices of a volume.
#[derive(Args)]
pub(super) struct DeviceArgs {
    /// The volume: a regular file or block device
    #[arg(value_name = "VOLUME")]
    pub(super) volume: PathBuf,
    /// Separate data device, if VOLUME has only the superblock, the journal and the tags
    #[arg(long, value_name = "FILE")]
    data_device: Option<PathBuf>,
}

impl DeviceArgs {
    pub(super) fn has_data_device(&self) -> bool {
        self.data_device.is_some()
    }

    /// The volume's path for messages.
    pub(super) fn shown(&self) -> String {
        printable(&self.volume).to_string()
    }

    /// Opens the devices for exclusive use, VOLUME first.
    pub(super) fn open(&self) -> Result<Vec<Device>> {
        self.open_with(&self.volume, Access::Write)
    }

    /// The same for reading only; others may do that, too.
    pub(super) fn open_read_only(&self) -> Result<Vec<Device>> {
        self.open_with(&self.volume, Access::ReadOnly)
    }

    /// The same, with VOLUME at another path.
    pub(super) fn open_with(&self, volume: &Path, access: Access) -> Result<Vec<Device>> {
        [Some(volume), self.data_device.as_deref()]
            .into_iter()
            .flatten()
            .map(|path| open_device(path, access))
            .collect()
    }

    /// Whether another process has the volume for itself now.
    pub(super) fn are_in_use(&self) -> bool {
        let opened = FileStorage::open_read_only(&self.volume);
        opened.is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
    }

    /// Each device's path, in the order of [`Self::open`].
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let volume = Some(self.volume.as_path());
        volume.into_iter().chain(self.data_device.as_deref())
    }
}

/// What a device is opened for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Access {
    Write,
    ReadOnly,
}

impl Access {
    fn open(self, path: &Path) -> io::Result<FileStorage> {
        match self {
            Self::Write => FileStorage::open(path),
            Self::ReadOnly => FileStorage::open_read_only(path),
        }
    }
}

fn open_device(path: &Path, access: Access) -> Result<Device> {
    let device = open_when_closed(path, access).with_context(|| printable(path).to_string())?;
    Ok(Arc::new(Counting::new(device)))
}

/// Opens a device, waiting briefly if it is in use: `umount(8)` returns before the process that
/// served a volume has closed it.
fn open_when_closed(path: &Path, access: Access) -> io::Result<FileStorage> {
    let start = Instant::now();
    let mut is_noted = false;
    loop {
        match access.open(path) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && start.elapsed() < CLOSING => {
                if !is_noted {
                    say(format_args!(
                        "note: {} is in use; waiting up to {} s for it to be closed",
                        printable(path),
                        CLOSING.as_secs()
                    ));
                    is_noted = true;
                }
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// Parses the size of a volume's disk.
pub(super) fn parse_disk_size(text: &str) -> Result<DiskSize, String> {
    DiskSize::new(parse_size(text)?).map_err(|error| error.to_string())
}

/// The devices of a volume, in the order of [`DeviceArgs::open`].
pub(super) fn devices_of(devices: &[Device]) -> Devices {
    match devices {
        [metadata, data] => Devices::with_data_device(metadata.clone(), data.clone()),
        _ => Devices::new(devices[0].clone()),
    }
}

/// What a journal can be protected with.
const JOURNAL_ALGORITHMS: [Algorithm; 2] = [Algorithm::HmacSha256, Algorithm::HmacSha512];

/// The algorithms and keys of a volume.
#[derive(Args)]
pub(super) struct IntegrityArgs {
    /// The integrity algorithm; an hmac needs a key
    #[arg(long, value_name = "ALGORITHM", default_value_t, value_parser = one_of::<Algorithm>(Algorithm::ALL.map(Algorithm::name)))]
    integrity: Algorithm,
    /// File with the key of an hmac algorithm; all of its bytes are used
    #[arg(long, value_name = "FILE")]
    integrity_key_file: Option<PathBuf>,
    /// What the journal is protected with
    #[arg(
        long,
        value_name = "ALGORITHM",
        value_parser = one_of::<Algorithm>(JOURNAL_ALGORITHMS.map(Algorithm::name)),
        requires = "journal_integrity_key_file"
    )]
    journal_integrity: Option<Algorithm>,
    /// File with the key of --journal-integrity; all of its bytes are used
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

/// The options for using a volume.
#[derive(Args)]
pub(super) struct UseArgs {
    #[command(flatten)]
    pub(super) devices: DeviceArgs,
    #[command(flatten)]
    integrity: IntegrityArgs,
    /// How to survive a crash: journal writes everything twice; bitmap recalculates the tags of
    /// regions that were being written; direct leaves blocks that were being written unreadable.
    /// read-only changes nothing, and needs no write permission; recovery is read-only and verifies
    /// nothing
    #[arg(long, value_name = "MODE", default_value_t, value_parser = one_of::<Mode>(Mode::ALL.map(Mode::name)))]
    mode: Mode,
    /// Allow discarding blocks, which then read as zeros. Always required once blocks of a volume
    /// have been discarded
    #[arg(long)]
    pub(super) allow_discards: bool,
    /// Size of the cache for tags
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    tag_cache: u64,
    /// Flush writes that have been unflushed for this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = DEFAULT_COMMIT_TIME)]
    commit_time: NonZeroU32,
    /// For benchmarks only: read tags before changing them
    #[arg(long)]
    tag_read_back: bool,
}

impl UseArgs {
    /// Opens the volume for use by threads that this one starts from now on.
    pub(super) fn open(&self) -> Result<OpenedVolume> {
        // Memory allocations of these threads must not wait for writeback to the disk that they
        // serve, nor may their writes be throttled by it. This requires CAP_SYS_RESOURCE.
        let _ = configure_io_flusher_behavior(true);
        let options = OpenOptions {
            integrity: self.integrity.integrity()?,
            mode: self.mode,
            allow_discards: self.allow_discards,
            cache_bytes: usize::try_from(self.tag_cache).unwrap_or(usize::MAX),
            tag_read_back: self.tag_read_back,
            ..OpenOptions::default()
        };
        let devices = match self.mode.is_read_only() {
            true => self.devices.open_read_only()?,
            false => self.devices.open()?,
        };
        let volume =
            Volume::open(devices_of(&devices), &options).with_context(|| self.devices.shown())?;
        let commit_time = Duration::from_millis(self.commit_time.get().into());
        Ok(OpenedVolume::new(volume, devices, commit_time))
    }
}
