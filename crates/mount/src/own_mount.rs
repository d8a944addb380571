use std::path::PathBuf;

use verimount_names::printable;

use crate::{
    Daemon, MountEntry, Registration, UnmountError,
    ending::EndingMount,
    helping,
    mount_table::mounted_on,
    unmount::{detach, detach_here},
};

/// A mount of this process. Its device number distinguishes it from other mounts on the same directory.
#[derive(Debug, Clone)]
pub(crate) struct OwnMount {
    pub(crate) mount_point: PathBuf,
    /// Its device number, which is unique while the mount is in use. `None` if the mount table does not
    /// show it.
    pub(crate) device: Option<String>,
}

impl OwnMount {
    /// The mount that was just made on `mount_point`.
    pub(crate) fn new(mount_point: PathBuf) -> Self {
        let device = mounted_on(&mount_point).map(|entry| entry.device);
        Self {
            mount_point,
            device,
        }
    }

    /// Its line in the mount table, unless it is detached.
    fn entry(&self) -> Option<MountEntry> {
        let entry = mounted_on(&self.mount_point)?;
        (Some(&entry.device) == self.device.as_ref()).then_some(entry)
    }

    /// Detaches it (a lazy unmount), unless it is detached already. It ends when its last open file is
    /// closed; until then, what is returned lets others find it.
    pub(crate) fn leave(&self) -> Result<Left, UnmountError> {
        let left = match helping::leave() {
            // The helper has the record.
            Some(users) => Left {
                record: None,
                users: users?,
            },
            None => self.leave_here(Daemon::current())?,
        };
        if let Some(users) = &left.users {
            let mount_point = printable(&self.mount_point);
            tracing::info!(%mount_point, users, "ending, but still in use");
        }
        Ok(left)
    }

    /// Detaches it without asking the helper process, as [`Self::leave`] does, for the process that serves it.
    pub(crate) fn leave_here(&self, daemon: Option<Daemon>) -> Result<Left, UnmountError> {
        let Some(entry) = self.entry() else {
            return Ok(Left::default());
        };
        let ending = daemon.map(|daemon| EndingMount::of(&entry, daemon));
        let record = ending.as_ref().and_then(EndingMount::registered);
        match detach_here(&entry) {
            // It has ended while this waited: an automounter has unmounted it.
            Err(UnmountError::NotMounted) => return Ok(Left::default()),
            detached => detached?,
        }
        let in_use = ending.filter(|ending| !ending.users().is_empty());
        Ok(Left {
            record,
            users: in_use.map(|ending| ending.in_use()),
        })
    }
}

/// What is left of a mount that was detached.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// By which others find it while it ends.
    pub(crate) record: Option<Registration>,
    /// Who still uses it, as the end of a sentence.
    pub(crate) users: Option<String>,
}

/// A mount of this process, which is unmounted when this is dropped unless it has ended.
pub(crate) struct HeldMount {
    pub(crate) own: OwnMount,
    /// Whether the kernel has ended the connection.
    pub(crate) ended: bool,
}

impl Drop for HeldMount {
    fn drop(&mut self) {
        // The connection ends the same way after an unmount and after an abort, which leaves a dead
        // mount behind. A live mount there was made since then, and may have the same device number.
        let left = self.own.entry();
        if let Some(left) = left.filter(|left| !self.ended || left.is_dead()) {
            // A failure here would hide the reason why the mount ended.
            let _ = detach(&left);
        }
    }
}
