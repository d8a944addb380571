//! A mount point that is always unmounted at the end.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Result, bail};

/// A mount point, which is unmounted when this is dropped.
#[derive(Debug)]
pub struct MountPoint(PathBuf);

impl MountPoint {
    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether anything is mounted here. A folder that cannot be examined is another user's mount, or
    /// one whose daemon is dead.
    pub fn is_mounted(&self) -> bool {
        let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
        match (device(&self.0), device(&self.0.join(".."))) {
            (Ok(own), Ok(parent)) => own != parent,
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => false,
            _ => true,
        }
    }

    /// Unmounts what is mounted here, if anything is.
    ///
    /// # Errors
    /// It is still mounted.
    pub fn unmount(&self) -> Result<()> {
        // A killed reader can have a file open for a moment longer.
        for attempt in 0..20 {
            if !self.is_mounted() || self.try_unmount(false) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10 * attempt));
        }
        if self.try_unmount(true) {
            return Ok(());
        }
        bail!("cannot unmount {}", self.0.display());
    }

    /// Detaches the mount now; it ends after its last use.
    fn try_unmount(&self, lazily: bool) -> bool {
        let (program, options) = match (rustix::process::geteuid().is_root(), lazily) {
            (true, false) => ("umount", "--"),
            (true, true) => ("umount", "--lazy"),
            (false, false) => ("fusermount3", "-u"),
            (false, true) => ("fusermount3", "-uz"),
        };
        let mut unmount = Command::new(program);
        let status = unmount
            .arg(options)
            .arg(&self.0)
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("{error:#}");
        }
    }
}
