use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use verimount_support::{command, mount_point::MountPoint};

/// A directory for files of the tests.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Creates an empty directory with this name, and removes an earlier one.
    pub(super) fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Creates a file with this name and length, filled with zeros.
    pub(super) fn file(&self, name: &str, len: u64) -> Result<PathBuf> {
        let path = self.0.join(name);
        File::create(&path)?.set_len(len)?;
        Ok(path)
    }

    /// Mounts the file system on a device, or with the option `loop` in a file, on a directory with this
    /// name.
    pub(super) fn mount(
        &self,
        image: &Path,
        file_system: &str,
        options: &str,
        name: &str,
    ) -> Result<MountPoint> {
        let point = MountPoint::new(self.0.join(name))?;
        command::run(
            Command::new("mount")
                .args(["-t", file_system, "-o", options])
                .arg(image)
                .arg(point.path()),
        )?;
        Ok(point)
    }
}
