use std::{io, mem, path::Path};

use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount as umount2},
};
use thiserror::Error;
use verimount_names::one_line;

use crate::{
    Daemon, EndingMount, fusermount, helping,
    mount_table::{MountEntry, mounted_on, path_of, topmost_on},
    native_name,
};

/// What is said of the mount of another user.
const OF_OTHERS: &str = "another user mounted it: only that user and root may unmount it";

/// Why a directory could not be unmounted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnmountError {
    /// Nothing is mounted there.
    #[error("nothing is mounted on it")]
    NotMounted,
    /// Another file system is mounted there.
    #[error(
        "the file system mounted on it has type {}, not verimount's",
        one_line(fs_type)
    )]
    NotOurs {
        /// The type in the mount table.
        fs_type: String,
    },
    /// Files in it are open, or it is the working directory of a process.
    #[error("it is in use; close what uses it, or unmount with --lazy")]
    Busy,
    /// `fusermount3`, which unmounts for ordinary users, refused.
    #[error("{0}")]
    Refused(String),
    /// Any other error of the system.
    #[error("{0}")]
    System(#[source] io::Error),
}

/// Unmounts the mount of Verimount on `mount_point`, and no other file system.
///
/// Uses the system call as root, and `fusermount3` otherwise.
///
/// # Errors
/// Any [`UnmountError`].
pub fn unmount(mount_point: &Path) -> Result<(), UnmountError> {
    let entry = checked(mount_point)?;
    let unmounted = umount2(&entry.mount_point, UnmountFlags::NOFOLLOW);
    unmounted.or_else(|error| not_unmounted(error, &entry.mount_point, false))?;
    entry.forget_name();
    Ok(())
}

/// Detaches the mount of Verimount on `mount_point` at once, and no other file system. It ends when its last open file is
/// closed; until then, [`ending_mounts`](crate::ending_mounts) finds it if `daemon` is the process that serves it.
///
/// # Errors
/// Any [`UnmountError`].
pub fn unmount_lazily(mount_point: &Path, daemon: Option<Daemon>) -> Result<(), UnmountError> {
    let entry = checked(mount_point)?;
    let ending = daemon.map(|daemon| EndingMount::of(&entry, daemon));
    let record = ending.as_ref().and_then(EndingMount::registered);
    detach_here(&entry)?;
    // It stays when this process ends.
    mem::forget(record);
    Ok(())
}

/// Kills the process that serves the mount of Verimount on `mount_point`, so that all who wait for it get errors, and detaches the
/// mount at once.
///
/// # Errors
/// Any [`UnmountError`].
pub fn unmount_by_force(mount_point: &Path) -> Result<(), UnmountError> {
    let entry = checked(mount_point)?;
    entry.kill_process().map_err(UnmountError::System)?;
    if !entry.is_native() {
        // Ends the kernel's connection to a process that cannot be seen from here. It is an error if the mount is in use.
        let flags = UnmountFlags::NOFOLLOW | UnmountFlags::FORCE;
        let _ = umount2(&entry.mount_point, flags);
    }
    match detach_here(&entry) {
        Err(UnmountError::NotMounted) => Ok(()),
        detached => detached,
    }
}

/// Detaches this mount of Verimount (a lazy unmount), and no other.
///
/// # Errors
/// [`UnmountError::NotMounted`] if it has ended meanwhile; any other [`UnmountError`].
pub(crate) fn detach(entry: &MountEntry) -> Result<(), UnmountError> {
    helping::detach(entry).unwrap_or_else(|| detach_here(entry))
}

/// Detaches this mount of Verimount (a lazy unmount), and no other, without asking the helper process.
///
/// A look-up of an automount point waits while the mount expires, and then finds the automount point itself, which is to stay.
/// So the root is looked up first, by which nothing is mounted, and unmounted if it is still that of this mount.
pub(crate) fn detach_here(entry: &MountEntry) -> Result<(), UnmountError> {
    let root = entry.root().map_err(UnmountError::System)?;
    let root = root.ok_or(UnmountError::NotMounted)?;
    let detached = umount2(path_of(&root), UnmountFlags::DETACH);
    detached.or_else(|error| not_unmounted(error, &entry.mount_point, true))?;
    entry.forget_name();
    Ok(())
}

impl MountEntry {
    /// Removes what a killed process has left of a native mount, which is gone now.
    fn forget_name(&self) {
        if self.is_native() {
            native_name::remove_left();
        }
    }
}

/// What is mounted on a mount point, if it is Verimount's. Its path has no symbolic links.
fn checked(mount_point: &Path) -> Result<MountEntry, UnmountError> {
    match topmost_on(mount_point).map_err(UnmountError::System)? {
        Some(entry) if entry.is_ours() => Ok(entry),
        Some(MountEntry { fs_type, .. }) => Err(UnmountError::NotOurs { fs_type }),
        None => Err(UnmountError::NotMounted),
    }
}

/// What an error of unmounting means; `fusermount3` may do what this process may not.
fn not_unmounted(error: Errno, mount_point: &Path, lazy: bool) -> Result<(), UnmountError> {
    match error {
        Errno::INVAL => Err(UnmountError::NotMounted),
        Errno::BUSY => Err(UnmountError::Busy),
        Errno::PERM => ask_fusermount(mount_point, lazy),
        other => Err(UnmountError::System(other.into())),
    }
}

fn ask_fusermount(mount_point: &Path, lazy: bool) -> Result<(), UnmountError> {
    let output = fusermount::unmount(mount_point, lazy).map_err(UnmountError::System)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    match said.trim() {
        said if said.contains("busy") => Err(UnmountError::Busy),
        // It knows only the caller's own mounts.
        said if said.contains("not found in") => match mounted_on(mount_point) {
            Some(_) => Err(UnmountError::Refused(OF_OTHERS.to_owned())),
            None => Err(UnmountError::NotMounted),
        },
        said => Err(UnmountError::Refused(one_line(said).to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use verimount_testkit::{World, needs};

    use super::*;
    use crate::{MountOptions, mount::mount_here};

    /// Another mount may be there when it has been looked up, or the automount point below it.
    #[test]
    fn only_the_mount_that_is_meant_is_detached() {
        let world = needs!(World::with_mount_point());
        let mnt = world.path("mnt");
        let options = MountOptions {
            source_name: "test".to_owned(),
            read_only: true,
            allow_other: false,
            threads: NonZeroUsize::MIN,
            awake: false,
            no_exec: false,
            no_symfollow: false,
            native: false,
            suid: false,
            dev: false,
        };
        let _device = mount_here(&mnt, &options).unwrap();
        let [meant, mut gone] = [(), ()].map(|()| mounted_on(&mnt).unwrap());
        gone.id += 1;
        let refused = detach_here(&gone);
        assert!(
            matches!(refused, Err(UnmountError::NotMounted)),
            "{refused:?}"
        );
        assert!(mounted_on(&mnt).is_some());
        detach_here(&meant).unwrap();
        assert!(mounted_on(&mnt).is_none());
    }
}
