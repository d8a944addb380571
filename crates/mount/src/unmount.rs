use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount as umount2},
};
use thiserror::Error;
use verimount_names::one_line;

use crate::{
    fusermount, helping,
    mount_table::{MountEntry, mounted_on},
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

/// Unmounts the mount of Verimount on `mount_point`, and no other file system. With `lazy`, the mount is
/// detached at once and ends when its last open file is closed.
///
/// Uses the system call as root, and `fusermount3` otherwise.
///
/// # Errors
/// Any [`UnmountError`].
pub fn unmount(mount_point: &Path, lazy: bool) -> Result<(), UnmountError> {
    helping::unmount(mount_point, lazy).unwrap_or_else(|| unmount_here(mount_point, lazy))
}

/// The same, by this process.
pub(crate) fn unmount_here(mount_point: &Path, lazy: bool) -> Result<(), UnmountError> {
    let mount_point = &checked(mount_point)?;
    let flags = match lazy {
        true => UnmountFlags::DETACH | UnmountFlags::NOFOLLOW,
        false => UnmountFlags::NOFOLLOW,
    };
    match umount2(mount_point, flags) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL) => Err(UnmountError::NotMounted),
        Err(Errno::BUSY) => Err(UnmountError::Busy),
        Err(Errno::PERM) => ask_fusermount(mount_point, lazy),
        Err(other) => Err(UnmountError::System(other.into())),
    }
}

/// The mount point without symbolic links, which unmounting does not follow, if it is one of Verimount's.
fn checked(mount_point: &Path) -> Result<PathBuf, UnmountError> {
    let absolute = mount_point.canonicalize().map_err(UnmountError::System)?;
    match mounted_on(&absolute) {
        Some(entry) if entry.is_ours() => Ok(absolute),
        Some(MountEntry { fs_type, .. }) => Err(UnmountError::NotOurs { fs_type }),
        None => Err(UnmountError::NotMounted),
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
