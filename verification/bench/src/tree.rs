//! A directory of many files, and an archive of it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use verimount_support::command;

use crate::{
    data,
    lab::{Lab, seconds},
};

/// The tree of files, and an archive of it.
pub(crate) struct Tree {
    /// The directory that contains only the tree.
    pub(crate) source: PathBuf,
    pub(crate) archive: PathBuf,
    /// The amount of data, for output.
    pub(crate) size: String,
    bytes: u64,
}

impl Tree {
    /// The name of the tree's top folder, in the directory and in the archive.
    pub(crate) const NAME: &str = "tree";

    pub(crate) fn make(lab: &Lab) -> Result<Self> {
        Self::in_folder(lab, "mirrored")
    }

    /// The tree in a directory with this name.
    pub(crate) fn in_folder(lab: &Lab, folder: &str) -> Result<Self> {
        let source = lab.path(folder);
        fs::create_dir(&source)?;
        let bytes = data::write_tree(&source.join(Self::NAME), &lab.sizes)?;
        let archive = lab.path(&format!("{folder}.tar"));
        let mut tar = Command::new("tar");
        tar.arg("cf").arg(&archive).arg("-C").arg(&source);
        command::run(tar.arg(Self::NAME))?;
        Ok(Self {
            source,
            archive,
            size: format!("{} files, {} MB", lab.sizes.files(), bytes / 1_000_000),
            bytes,
        })
    }

    /// The command that unpacks the archive into `folder`.
    pub(crate) fn unpack(&self, folder: &Path) -> Command {
        let mut tar = Command::new("tar");
        tar.arg("xf").arg(&self.archive).arg("-C").arg(folder);
        tar
    }

    /// Drops caches, prepares memory for unpacking the archive, and reads the archive into the cache.
    pub(crate) fn make_ready(&self, lab: &Lab) -> Result<()> {
        if lab.is_root() {
            lab.make_cold(self.bytes)?;
        } else {
            rustix::fs::sync();
        }
        seconds(Command::new("cat").arg(&self.archive))?;
        Ok(())
    }
}
