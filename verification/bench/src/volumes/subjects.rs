//! One disk as a file, as a file relayed or checked by other programs, as a volume, and over NBD.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use tempfile::TempDir;
use verimount_support::command;

use super::server::Server;
use crate::{
    fio::{self, fio},
    handicap,
    lab::{Lab, User, has},
    mounts::{self, Mount},
};

pub(super) const PLAIN: &str = "plain file";
pub(super) const RELAYED: &str = "unchecked FUSE file";
pub(super) const DIRECT: &str = "verimount, direct";
pub(super) const BITMAP: &str = "verimount, bitmap";
pub(super) const JOURNAL: &str = "verimount, journal";
pub(super) const NBDKIT: &str = "nbdkit file";

/// Space for tags and a journal besides the data, as a fraction of it. btrfs needs less.
const OVERHEAD: u64 = 16;

/// The least space besides the data, in bytes: btrfs has more overhead on a small disk.
const LEAST_OVERHEAD: u64 = 256 << 20;

/// The name of a disk that is a file in a directory.
const NAME: &str = "disk";

/// A kind of disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    form: Form,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Plain,
    Relayed,
    /// A file in a btrfs on a loop device, mounted with these options.
    Btrfs(&'static str),
    /// Mounted with these options of `verimount volume mount`.
    Volume(&'static [&'static str]),
    /// Mounted in direct mode, by this program.
    TagsReadBack,
    /// Over NBD, from nbdkit's file plugin.
    Nbdkit,
    /// Over NBD, with these options of `verimount volume serve`.
    Served(&'static [&'static str]),
}

/// The storage of a disk, zero at first.
pub(super) struct Storage {
    form: Form,
    file: PathBuf,
    folder: TempDir,
}

/// A disk in use. Dropping it ends the use.
pub(super) enum Disk {
    File { path: PathBuf, mount: Option<Mount> },
    Nbd(Server),
}

const DIRECT_MODE: &[&str] = &["--mode", "direct"];
const BITMAP_MODE: &[&str] = &["--mode", "bitmap"];
const JOURNAL_MODE: &[&str] = &["--mode", "journal"];

impl Subject {
    /// Mounted volumes in each mode.
    pub(super) const VOLUMES: [Self; 3] = [
        Self::new(DIRECT, Form::Volume(DIRECT_MODE)),
        Self::new(BITMAP, Form::Volume(BITMAP_MODE)),
        Self::new(JOURNAL, Form::Volume(JOURNAL_MODE)),
    ];

    /// Disks that are files.
    pub(super) const FILES: [Self; 5] = [
        Self::new(PLAIN, Form::Plain),
        Self::new(RELAYED, Form::Relayed),
        Self::VOLUMES[0],
        Self::VOLUMES[1],
        Self::VOLUMES[2],
    ];

    /// Files in another file system with checksums, and in the same without them.
    pub(super) const OF_BTRFS: [Self; 2] = [
        Self::new("btrfs on loop", Form::Btrfs("loop")),
        Self::new("btrfs on loop, nodatasum", Form::Btrfs("loop,nodatasum")),
    ];

    /// Disks over NBD.
    pub(super) const SERVED: [Self; 4] = [
        Self::new(NBDKIT, Form::Nbdkit),
        Self::new(DIRECT, Form::Served(DIRECT_MODE)),
        Self::new(BITMAP, Form::Served(BITMAP_MODE)),
        Self::new(JOURNAL, Form::Served(JOURNAL_MODE)),
    ];

    /// As the kernel wrote a part of a tag area before 2020.
    pub(super) const READ_BACK: Self =
        Self::new("verimount, direct, tags read back", Form::TagsReadBack);

    const fn new(name: &'static str, form: Form) -> Self {
        Self { name, form }
    }

    /// The other project's program that it needs, if that is missing.
    pub(super) fn lacks(&self) -> Option<&'static str> {
        let program = match self.form {
            Form::Btrfs(_) => "mkfs.btrfs",
            Form::Nbdkit => "nbdkit",
            _ => return None,
        };
        (!has(program)).then_some(program)
    }

    /// Storage for a new disk of at least this many bytes.
    pub(super) fn storage(&self, lab: &Lab, bytes: u64) -> Result<Storage> {
        let folder = lab.new_folder()?;
        let file = folder.path().join(NAME);
        let size = bytes + (bytes / OVERHEAD).max(LEAST_OVERHEAD);
        match self.form {
            Form::Plain | Form::Relayed | Form::Nbdkit => File::create(&file)?.set_len(bytes)?,
            Form::Btrfs(_) => {
                File::create(&file)?.set_len(size)?;
                let mut mkfs = Command::new("mkfs.btrfs");
                // It prints each time what has changed in a recent version.
                command::stdout(mkfs.arg("--quiet").arg(&file))?;
            }
            Form::Volume(_) | Form::TagsReadBack | Form::Served(_) => {
                let mut format = lab.verimount(User::Caller);
                format.args(["volume", "format", "--size", &size.to_string()]);
                command::stdout(format.arg(&file))?;
            }
        }
        let storage = Storage {
            form: self.form,
            file,
            folder,
        };
        if let (Form::Btrfs(_), Disk::File { path, .. }) = (self.form, &storage.disk(lab)?) {
            File::create(path)?.set_len(bytes)?;
        }
        Ok(storage)
    }
}

impl Storage {
    /// The file that contains the storage.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The disk on it. There must be only one at a time, and it must be dropped before the storage.
    pub(super) fn disk(&self, lab: &Lab) -> Result<Disk> {
        let mount = match self.form {
            Form::Plain => {
                let path = self.file.clone();
                return Ok(Disk::File { path, mount: None });
            }
            Form::Nbdkit => return Ok(Disk::Nbd(Server::nbdkit(lab, &self.file)?)),
            Form::Served(mode) => return Ok(Disk::Nbd(Server::volume(lab, &self.file, mode)?)),
            Form::Relayed => mounts::bridge(lab, self.folder.path(), &["--passthrough", "never"])?,
            Form::Btrfs(options) => mounts::looped(lab, "btrfs", options, &self.file)?,
            Form::Volume(options) => mounts::volume(lab, &self.file, options)?,
            Form::TagsReadBack => handicap::volume(lab, &self.file)?,
        };
        Ok(Disk::File {
            path: mount.path().join(NAME),
            mount: Some(mount),
        })
    }
}

impl Disk {
    /// fio with one job on it, which uses `engine` if the disk is a file.
    pub(super) fn fio(&self, engine: &str) -> Command {
        match self {
            Self::File { path, .. } => {
                let mut fio = fio(path);
                fio.arg(format!("--ioengine={engine}"));
                fio
            }
            Self::Nbd(server) => server.fio(),
        }
    }

    /// Writes the whole disk.
    pub(super) fn fill(&self, bytes: u64) -> Result<()> {
        let mut fio = self.fio("psync");
        fio.args(["--rw=write", "--bs=1m", "--end_fsync=1"]);
        fio::job(fio.arg(format!("--size={bytes}")))?;
        Ok(())
    }

    /// The count with this name in `verimount status` of a mounted volume.
    pub(super) fn counter(&self, lab: &Lab, name: &str) -> Result<u64> {
        match self {
            Self::File {
                mount: Some(mount), ..
            } => mount.counter(lab, name),
            _ => Ok(0),
        }
    }

    /// The disk's file.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::Nbd(_) => None,
        }
    }
}
