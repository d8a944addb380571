use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use rustix::process::configure_io_flusher_behavior;
use verimount::{Error, ErrorKind};
use verimount_host::{
    printable,
    sandbox::Sandbox,
    volume::{
        self, Algorithm, CommitTimer, Integrity, Key, Mode, OpenOptions, VolumeFiles, memory_share,
        return_freed_memory,
    },
};

use super::{
    holder::{finding_holder, holder},
    opened::OpenedVolume,
};
use crate::{
    message::{Explained, say},
    options::{one_of, parse_size},
};

/// How long to wait for a volume in use to be closed. Writing its pending data takes seconds.
const CLOSING: Duration = Duration::from_secs(5);

/// The interval between attempts to open it.
const PAUSE: Duration = Duration::from_millis(20);

/// The default of `--commit-time`, in milliseconds.
const DEFAULT_COMMIT_TIME: NonZeroU32 =
    NonZeroU32::new(CommitTimer::DEFAULT_TIME.as_millis() as u32).unwrap();

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
    /// The volume's path for messages.
    pub(super) fn shown(&self) -> String {
        printable(&self.volume).to_string()
    }

    pub(super) fn files(&self) -> VolumeFiles {
        VolumeFiles {
            volume: self.volume.clone(),
            data_device: self.data_device.clone(),
            header: None,
        }
    }
}

/// The devices of a volume, and what its superblock is read from.
#[derive(Args)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    pub(super) devices: DeviceArgs,
    /// A backup of the superblock, to read VOLUME by instead of its own, which may be damaged: VOLUME can then only be read
    #[arg(long, value_name = "FILE")]
    header: Option<PathBuf>,
}

impl SourceArgs {
    pub(super) fn files(&self) -> VolumeFiles {
        VolumeFiles {
            header: self.header.clone(),
            ..self.devices.files()
        }
    }
}

/// Does something with a volume, waiting briefly if it is in use: `umount(8)` returns before the
/// process that served a volume has closed it.
pub(super) fn when_closed<T>(mut work: impl FnMut() -> Result<T, Error>) -> Result<T> {
    let start = Instant::now();
    let mut is_noted = false;
    loop {
        match work() {
            Err(error) if is_busy(&error) && start.elapsed() < CLOSING => {
                if !is_noted {
                    say(format_args!(
                        "note: {}; waiting up to {} s for it to be closed",
                        in_use(&error),
                        CLOSING.as_secs()
                    ));
                    is_noted = true;
                }
                thread::sleep(PAUSE);
            }
            Err(error) if is_busy(&error) => {
                return Err(Explained::new(&error, in_use(&error)).into());
            }
            result => return Ok(result?),
        }
    }
}

fn is_busy(error: &Error) -> bool {
    error.kind() == ErrorKind::Busy
}

/// That a volume is in use, and by which process if that can be told.
fn in_use(error: &Error) -> String {
    let Some(at) = error.location() else {
        return error.to_string();
    };
    match at.path().and_then(holder) {
        Some(holder) => format!("{at}: it is in use by {holder}"),
        None => format!("{at}: it is in use by another process"),
    }
}

/// Says what a mode loses that users of a disk do not expect.
pub(super) fn say_risk(mode: Mode) {
    if mode == Mode::Direct {
        say(
            "note: in direct mode, a crash may leave every block that was being written unreadable, and lose what it \
             held before, even if that was flushed: use another mode for databases and file systems",
        );
    }
}

/// What a journal can be protected with.
const JOURNAL_ALGORITHMS: [Algorithm; 2] = [Algorithm::HmacSha256, Algorithm::HmacSha512];

/// The algorithms and keys of a volume.
#[derive(Args)]
pub(super) struct IntegrityArgs {
    /// The integrity algorithm; an hmac needs a key
    #[arg(long, value_name = "ALGORITHM", default_value_t, value_parser = one_of(Algorithm::ALL, Algorithm::name))]
    integrity: Algorithm,
    /// File with the key of an hmac algorithm; all of its bytes are used
    #[arg(long, value_name = "FILE")]
    integrity_key_file: Option<PathBuf>,
    /// What the journal is protected with
    #[arg(
        long,
        value_name = "ALGORITHM",
        value_parser = one_of(JOURNAL_ALGORITHMS, Algorithm::name),
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
    pub(super) source: SourceArgs,
    #[command(flatten)]
    integrity: IntegrityArgs,
    /// How to survive a crash: journal writes everything twice; bitmap recalculates the tags of
    /// regions that were being written; direct leaves blocks that were being written unreadable,
    /// with what they held before, so it is not for databases or file systems. read-only changes nothing, and needs no write permission; recovery is read-only and verifies
    /// nothing
    #[arg(long, value_name = "MODE", default_value_t, value_parser = one_of(Mode::ALL, Mode::name))]
    pub(super) mode: Mode,
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
}

/// The part of a control group's memory that the contents of the journal may take. What is not in it yet and the buffers for writing it
/// take some three times as much, and the largest request of a client takes 32 MiB.
const JOURNAL_SHARE: u64 = 32;

impl UseArgs {
    /// Keeps what using the volume takes.
    pub(super) fn prepare(&self, sandbox: &mut Sandbox) {
        let SourceArgs { devices, header } = &self.source;
        let devices = [Some(&devices.volume), devices.data_device.as_ref()];
        let devices = devices.into_iter().flatten();
        for device in devices.clone() {
            if self.mode.is_read_only() {
                sandbox.read(device);
            } else {
                sandbox.write(device);
            }
        }
        let keys = &self.integrity;
        let read = [
            &keys.integrity_key_file,
            &keys.journal_integrity_key_file,
            header,
        ];
        read.into_iter()
            .flatten()
            .for_each(|path| sandbox.read(path));
        sandbox.task(finding_holder(devices.cloned().collect()));
    }

    /// Opens the volume for use by threads that this one starts from now on.
    pub(super) fn open(&self) -> Result<OpenedVolume> {
        let journal_bytes = memory_share(JOURNAL_SHARE, OpenOptions::DEFAULT_JOURNAL_BYTES);
        if journal_bytes < OpenOptions::DEFAULT_JOURNAL_BYTES {
            return_freed_memory();
        }
        // Memory allocations of these threads must not wait for writeback to the disk that they
        // serve, nor may their writes be throttled by it. This requires CAP_SYS_RESOURCE.
        let _ = configure_io_flusher_behavior(true);
        let options = OpenOptions {
            integrity: self.integrity.integrity()?,
            mode: self.mode,
            allow_discards: self.allow_discards,
            cache_bytes: usize::try_from(self.tag_cache).unwrap_or(usize::MAX),
            journal_bytes,
            ..OpenOptions::default()
        };
        say_risk(self.mode);
        let files = self.source.files();
        let (volume, opened) = when_closed(|| volume::open(&files, &options))?;
        Ok(OpenedVolume {
            volume: Arc::new(volume),
            devices: opened.each().to_vec(),
            commit_time: Duration::from_millis(self.commit_time.get().into()),
        })
    }
}
