//! Sealing of files in memory. It takes a right over all files that root owns, so a sandboxed process leaves it to its helper.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
};

use rustix::{
    fs::{IFlags, fstat, ioctl_setflags},
    io::Errno,
    process::{Pid, PidfdFlags, PidfdGetfdFlags, getppid, pidfd_getfd, pidfd_open},
};
use verimount_helper::{Answer, Task, ask};

use crate::errno::errno;

const NAME: &str = "seal";

/// The task of sealing new files of the file system with this number, which the process that asks has open.
pub(super) fn sealing(device: u64) -> Task {
    Task::new(NAME, move |given| {
        let number = given.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        let asks = getppid().ok_or(Errno::SRCH)?;
        seal_of(asks, i32::from_ne_bytes(number), device)?;
        Ok(Answer::default())
    })
}

/// Seals a file that a process has open. It must have no name, as all have that others read.
fn seal_of(process: Pid, number: RawFd, device: u64) -> Result<(), Errno> {
    let process = pidfd_open(process, PidfdFlags::empty())?;
    // It is not opened anew, which would look like somebody else's opening.
    let file = pidfd_getfd(process, number, PidfdGetfdFlags::empty())?;
    let stat = fstat(&file)?;
    if stat.st_dev == device && stat.st_nlink == 0 {
        seal_here(&file)
    } else {
        Err(Errno::PERM)
    }
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

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use rustix::process::{geteuid, getpid};
    use verimount_testkit::needs;

    use super::*;

    /// A daemon that was taken over can name any of its files.
    #[test]
    fn nothing_else_is_sealed() {
        needs!(geteuid().is_root().then_some(()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let image = File::create(&path).unwrap();
        let device = fstat(&image).unwrap().st_dev;
        let seal = |file: &File, device| seal_of(getpid(), file.as_raw_fd(), device);
        assert_eq!(seal(&image, device), Err(Errno::PERM));
        // Not of this file system.
        fs::remove_file(&path).unwrap();
        assert_eq!(seal(&image, device + 1), Err(Errno::PERM));
        assert_eq!(seal_of(getpid(), -1, device), Err(Errno::BADF));
        (&image).write_all(b"still").unwrap();
    }
}
