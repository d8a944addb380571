//! Mounts that lack what makes ours fast: no user would want them, so the command has no options for them.

use std::{
    env,
    num::{NonZeroU32, NonZeroUsize},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
};

use anyhow::{Context, Result};
use clap::Subcommand;
use rustix::process::{getegid, geteuid};
use verimount_integrity::{CommitTimer, Devices, Mode, OpenOptions, Volume};
use verimount_mount::{EndSignals, MountOptions, Mountable, attach};
use verimount_romfs::{Error as RomfsError, RomfsTree};
use verimount_serve::{Disk, DiskAccess, ImageFs, Served, VerifiedTree, VolumeFs};
use verimount_source::{Counting, Fetch, FileSource, FileStorage};
use verimount_tree::{SingleFile, StoredFile};
use verimount_verity::{Checked, FileDigest, Sealed, Trust, VerifiedReader, VerifyOptions};

use crate::{
    blocks::Blocks,
    lab::{Lab, User},
    mounts::{self, Mount},
};

/// The name of the hidden task.
const NAME: &str = "handicapped";

/// A mount to be served until it is unmounted.
#[derive(Debug, Subcommand)]
pub(crate) enum Handicapped {
    /// A romfs image, or a sealed file
    Image {
        source: PathBuf,
        digest: FileDigest,
        /// The largest request to the storage, in bytes
        #[arg(long)]
        block_size: Option<NonZeroU32>,
        /// Read only those blocks of the tree that are needed
        #[arg(long)]
        no_read_ahead: bool,
        directory: PathBuf,
    },
    /// A volume in direct mode that reads tags before it changes them
    Volume { volume: PathBuf, directory: PathBuf },
}

/// What an image is mounted without.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Handicap {
    /// Read-ahead of the tree.
    NoTreeReadAhead,
    /// Requests of more than this many bytes.
    BlockSize(NonZeroU32),
}

/// Mounts a romfs image or a sealed file.
pub(crate) fn image(lab: &Lab, image: &mounts::Sealed, handicap: Handicap) -> Result<Mount> {
    let mut task = task("image")?;
    task.arg(&image.source).arg(&image.digest);
    match handicap {
        Handicap::NoTreeReadAhead => task.arg("--no-read-ahead"),
        Handicap::BlockSize(size) => task.args(["--block-size", &size.to_string()]),
    };
    served(lab, task)
}

/// Mounts a volume whose tags are read back.
pub(crate) fn volume(lab: &Lab, volume: &Path) -> Result<Mount> {
    let mut task = task("volume")?;
    task.arg(volume);
    served(lab, task)
}

fn task(what: &str) -> Result<Command> {
    let mut task = Command::new(env::current_exe()?);
    task.args([NAME, what]);
    Ok(task)
}

fn served(lab: &Lab, mut task: Command) -> Result<Mount> {
    mounts::served(lab, User::Caller, |point| {
        task.arg(point);
        task
    })
}

impl Handicapped {
    /// Serves it in this process.
    pub(crate) fn serve(self) -> Result<()> {
        match self {
            Self::Image {
                source,
                digest,
                block_size,
                no_read_ahead,
                directory,
            } => {
                let options = VerifyOptions {
                    tree_readahead: if no_read_ahead {
                        0
                    } else {
                        VerifyOptions::DEFAULT_TREE_READAHEAD
                    },
                    ..VerifyOptions::default()
                };
                let sealed = open_sealed(&source, block_size)?;
                let seal = sealed.accepted_by(&Trust::Digest(digest))?;
                let reader = VerifiedReader::new(seal, options)?;
                let tree = tree(&source, Arc::new(reader))?;
                let served = Served::new(source.display().to_string(), None);
                serve(ImageFs::new(Arc::new(tree), served), &directory, true)
            }
            Self::Volume { volume, directory } => serve_volume(&volume, &directory),
        }
    }
}

/// The seal at the end of a file or beside it.
fn open_sealed(source: &Path, block_size: Option<NonZeroU32>) -> Result<Sealed> {
    let open = |path: &Path| -> Result<Arc<dyn Fetch>> {
        let file = FileSource::open(path)?;
        Ok(match block_size {
            Some(size) => Arc::new(Blocks::new(file, size)),
            None => Arc::new(file),
        })
    };
    let data = open(source)?;
    if let Ok(sealed) = Sealed::open_appended(data.clone()) {
        return Ok(sealed);
    }
    let mut sidecar = source.as_os_str().to_owned();
    sidecar.push(".verity");
    Ok(Sealed::open_sidecar(data, open(sidecar.as_ref())?)?)
}

fn tree(source: &Path, reader: Arc<VerifiedReader>) -> Result<VerifiedTree> {
    let checked = Checked::from(reader.clone());
    let content = checked.in_chunks(processors()).read_ahead();
    match RomfsTree::open(content.clone()) {
        Err(RomfsError::NotRomfs) => {
            let name = source.file_name().context("a file has a name")?;
            let file = SingleFile::new(name, &StoredFile::default(), Arc::new(content));
            Ok(VerifiedTree::of_file(
                file,
                Some(*reader.identity()),
                reader.account().clone(),
            ))
        }
        tree => Ok(VerifiedTree::new(
            Box::new(tree?),
            Some(*reader.identity()),
            reader.account().clone(),
        )),
    }
}

fn serve_volume(volume: &Path, directory: &Path) -> Result<()> {
    let device = Arc::new(Counting::new(FileStorage::open(volume)?));
    let options = OpenOptions {
        mode: Mode::Direct,
        tag_read_back: true,
        ..OpenOptions::default()
    };
    let served = Served::new(volume.display().to_string(), None);
    let volume = Arc::new(Volume::open(Devices::new(device.clone()), &options)?);
    let disk = Disk::new(volume.clone(), vec![device], served);
    let access = DiskAccess {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        mode: 0o600,
    };
    let timer = CommitTimer::start(&volume, CommitTimer::DEFAULT_TIME)?;
    serve(VolumeFs::new(disk, access), directory, false)?;
    drop(timer);
    let volume = Arc::into_inner(volume).context("the volume is still in use")?;
    Ok(volume.close()?)
}

fn serve(fs: impl Mountable, directory: &Path, read_only: bool) -> Result<()> {
    let options = MountOptions {
        source_name: NAME.to_owned(),
        read_only,
        allow_other: false,
        // As the command has them.
        threads: processors()
            .saturating_add(processors().get())
            .min(8.try_into()?),
        awake: false,
        no_exec: false,
        no_symfollow: false,
        native: false,
        suid: false,
        dev: false,
    };
    let mounted = attach(Arc::new(fs), directory, &options)?;
    Ok(mounted.wait(EndSignals::new(None)?)?)
}

fn processors() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
