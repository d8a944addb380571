//! Sealing of files in memory. It takes a right over all files that root owns, so a sandboxed process leaves it to its helper.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd},
};

use rustix::{
    fs::{IFlags, fstat, ioctl_setflags},
    io::Errno,
    process::{PidfdFlags, PidfdGetfdFlags, getppid, pidfd_getfd, pidfd_open},
};
use verimount_helper::{Answer, Task, ask};

use crate::errno::errno;

const NAME: &str = "seal";

/// The task of sealing files of the file system with this number, which the process that asks has open.
pub(super) fn sealing(device: u64) -> Task {
    Task::new(NAME, move |given| {
        let number = given.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        let asks = pidfd_open(getppid().ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        // It is not opened anew, which would look like somebody else's opening.
        let number = i32::from_ne_bytes(number);
        let file = pidfd_getfd(asks, number, PidfdGetfdFlags::empty())?;
        if fstat(&file)?.st_dev == device {
            seal_here(&file)?;
            Ok(Answer::default())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    })
}

/// Sees to it that nobody can open a file for writing any more.
pub(super) fn seal(file: &File) -> Result<(), Errno> {
    match ask(NAME, &file.as_raw_fd().to_ne_bytes()) {
        Some(answer) => answer.map(drop).map_err(|error| errno(&error)),
        None => seal_here(file),
    }
}

fn seal_here(file: impl AsFd) -> Result<(), Errno> {
    ioctl_setflags(file, IFlags::IMMUTABLE)
}
