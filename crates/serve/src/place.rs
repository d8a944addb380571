use std::path::{Path, PathBuf};

use rustix::{fs::statfs, io::Errno};

use crate::{UnmountError, mount_table::mounted_on, unmount};

/// A mount of ours, told from whatever else comes to be mounted on the same directory.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) mount_point: PathBuf,
    /// Its device number, which is no other mount's as long as this one is in use. `None` if the
    /// mount table does not show it.
    pub(crate) device: Option<String>,
}

impl Place {
    /// What has just been mounted on `mount_point`.
    fn new(mount_point: PathBuf) -> Self {
        let device = mounted_on(&mount_point).map(|entry| entry.device);
        Self {
            mount_point,
            device,
        }
    }

    fn is_in_sight(&self) -> bool {
        self.device.is_some()
            && mounted_on(&self.mount_point).map(|entry| entry.device) == self.device
    }

    /// Takes it out of sight if it still is to be seen; it ends when its last open file is closed.
    pub(crate) fn leave(&self) -> Result<(), UnmountError> {
        match self.is_in_sight() {
            true => unmount(&self.mount_point, true),
            false => Ok(()),
        }
    }
}

/// A mount of ours that is taken away when this is dropped, unless it has ended.
pub(crate) struct HeldPlace {
    pub(crate) place: Place,
    /// Whether the kernel has said that the mount ended.
    pub(crate) ended: bool,
}

impl HeldPlace {
    /// Holds what has just been mounted on `mount_point`.
    pub(crate) fn new(mount_point: PathBuf) -> Self {
        Self {
            place: Place::new(mount_point),
            ended: false,
        }
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        // The kernel says the same when it is unmounted and when its connection is aborted, which
        // leaves it where it is, dead. What is alive there has been mounted since, and may have
        // been given the same number.
        let mount_point = &self.place.mount_point;
        if self.place.is_in_sight() && (!self.ended || is_dead(mount_point)) {
            // Whatever ended the work matters more than one more failure.
            let _ = unmount(mount_point, true);
        }
    }
}

/// Whether nobody serves any more what is mounted on `mount_point`. The kernel keeps attributes and
/// tells them as long as it can, but not this.
pub(crate) fn is_dead(mount_point: &Path) -> bool {
    statfs(mount_point).is_err_and(|error| error == Errno::NOTCONN)
}
