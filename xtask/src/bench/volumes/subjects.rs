//! The same disk as a file, as a file that another process relays, and as a volume.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::Result;
use tempfile::TempDir;

use crate::{
    bench::{
        lab::{Lab, User},
        mounts::{self, Mount},
    },
    command,
};

pub(super) const PLAIN: &str = "plain file";
pub(super) const RELAYED: &str = "unchecked FUSE file";
pub(super) const DIRECT: &str = "verimount, direct";
pub(super) const BITMAP: &str = "verimount, bitmap";
pub(super) const JOURNAL: &str = "verimount, journal";

/// Room for tags and a journal beside the data, as a part of it.
const OVERHEAD: u64 = 16;

/// A way to have a disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    form: Form,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Plain,
    Relayed,
    /// Options of `verimount volume mount`.
    Volume(&'static [&'static str]),
}

/// A new disk that holds zeros, until this is dropped.
pub(super) struct Disk {
    // Before the folder, so that it is unmounted before its storage is removed.
    mount: Option<Mount>,
    path: PathBuf,
    storage: PathBuf,
    _folder: TempDir,
}

impl Subject {
    pub(super) const ALL: [Self; 5] = [
        Self::new(PLAIN, Form::Plain),
        Self::new(RELAYED, Form::Relayed),
        Self::new(DIRECT, Form::Volume(&["--mode", "direct"])),
        Self::new(BITMAP, Form::Volume(&["--mode", "bitmap"])),
        Self::new(JOURNAL, Form::Volume(&["--mode", "journal"])),
    ];

    /// What each write of a part of a tag area was before 2020.
    pub(super) const READ_BACK: Self = Self::new(
        "verimount, direct, tags read back",
        Form::Volume(&["--mode", "direct", "--tag-read-back"]),
    );

    const fn new(name: &'static str, form: Form) -> Self {
        Self { name, form }
    }

    pub(super) fn is_volume(&self) -> bool {
        matches!(self.form, Form::Volume(_))
    }

    /// A new disk of at least so many bytes.
    pub(super) fn disk(&self, lab: &Lab, bytes: u64) -> Result<Disk> {
        let folder = lab.new_folder()?;
        let storage = folder.path().join("disk");
        let (mount, path) = match self.form {
            Form::Plain => {
                File::create(&storage)?.set_len(bytes)?;
                (None, storage.clone())
            }
            Form::Relayed => {
                File::create(&storage)?.set_len(bytes)?;
                let mount = mounts::bridge(lab, folder.path(), &["--passthrough", "never"])?;
                let path = mount.path().join("disk");
                (Some(mount), path)
            }
            Form::Volume(options) => {
                let size = bytes + bytes / OVERHEAD + (64 << 20);
                let mut format = lab.verimount(User::Caller);
                format.args(["volume", "format", "--size", &size.to_string()]);
                command::stdout(format.arg(&storage))?;
                let mount = mounts::volume(lab, &storage, options)?;
                let path = mount.path().join("disk");
                (Some(mount), path)
            }
        };
        Ok(Disk {
            mount,
            path,
            storage,
            _folder: folder,
        })
    }
}

impl Disk {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the mount, and gives the file that the disk was on.
    pub(super) fn close(&mut self) -> &Path {
        self.mount = None;
        &self.storage
    }

    /// What a volume's `verimount status` counts under this name.
    pub(super) fn counter(&self, lab: &Lab, name: &str) -> Result<u64> {
        match &self.mount {
            Some(mount) => mount.counter(lab, name),
            None => Ok(0),
        }
    }
}
