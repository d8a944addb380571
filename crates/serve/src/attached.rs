use std::path::PathBuf;

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
    pub(crate) fn new(mount_point: PathBuf) -> Self {
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

/// What is mounted, as long as it must be unmounted if the work fails.
pub(crate) struct Attached {
    pub(crate) place: Place,
    pub(crate) ended: bool,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.ended {
            // The reason for the failure matters more than one more failure.
            let _ = self.place.leave();
        }
    }
}
