use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use crate::checked::checked;

/// `F_SETSIG` (`asm-generic/fcntl.h`): sets the signal that asks for the release of a lease.
const F_SETSIG: libc::c_int = 10;

/// Whether any process has a file open or mapped for writing. `file` must be open for reading only.
///
/// The kernel grants a read lease only for a file that nobody has open for writing. The lease is
/// released at once. An open for writing in the meantime waits for that, or with `O_NONBLOCK` fails
/// with `EWOULDBLOCK`.
///
/// # Errors
/// `EACCES` for another user's file without `CAP_LEASE`; `EINVAL` where leases are not supported.
pub fn is_open_for_writing(file: impl AsFd) -> io::Result<bool> {
    // The default signal, SIGIO, would terminate the process, which has no handler for it.
    fcntl(&file, F_SETSIG, libc::SIGURG)?;
    match fcntl(&file, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => fcntl(&file, libc::F_SETLEASE, libc::F_UNLCK).map(|()| false),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Takes a write lease on `file`, which is open for writing: until it is [released](release_lease) or the file is closed, it
/// [shows](holds_write_lease) whether anybody else has opened the file.
///
/// # Errors
/// `EAGAIN` if anybody else has it open; otherwise as [`is_open_for_writing`].
pub fn take_write_lease(file: impl AsFd) -> io::Result<()> {
    fcntl(&file, F_SETSIG, libc::SIGURG)?;
    fcntl(&file, libc::F_SETLEASE, libc::F_WRLCK)
}

/// Whether nobody else has opened `file` since [`take_write_lease`], nor waits to: an open waits until the lease is released,
/// or some time has passed (`/proc/sys/fs/lease-break-time`), after which the lease is gone.
pub fn holds_write_lease(file: impl AsFd) -> bool {
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: the command takes no argument and touches no memory. The descriptor is borrowed, so it stays open.
    unsafe { libc::fcntl(descriptor, libc::F_GETLEASE) == libc::F_WRLCK }
}

/// Releases a lease: whoever waits for that goes on.
///
/// # Errors
/// `EAGAIN` if there is none, as it may have been taken away.
pub fn release_lease(file: impl AsFd) -> io::Result<()> {
    fcntl(&file, libc::F_SETLEASE, libc::F_UNLCK)
}

fn fcntl(file: &impl AsFd, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: these commands take a number and touch no memory. The descriptor is borrowed, so it
    // stays open.
    checked(unsafe { libc::fcntl(descriptor, command, argument) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{File, OpenOptions},
        os::unix::fs::OpenOptionsExt,
        thread,
    };

    use super::*;

    #[test]
    fn a_write_lease_tells_other_opens() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path();
        assert!(!holds_write_lease(&file));
        {
            let _other = File::open(path).unwrap();
            assert!(take_write_lease(&file).is_err());
        }
        take_write_lease(&file).unwrap();
        assert!(holds_write_lease(&file));
        let mut impatient = OpenOptions::new();
        impatient.write(true).custom_flags(libc::O_NONBLOCK);
        let error = impatient.open(path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(!holds_write_lease(&file));
    }

    #[test]
    fn writers_are_detected_and_not_blocked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = File::open(file.path()).unwrap();
        assert!(is_open_for_writing(&read).unwrap());
        let path = file.into_temp_path();
        assert!(!is_open_for_writing(&read).unwrap());
        // However they fall together: both go on, and no signal ends this process.
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..2000 {
                    OpenOptions::new().write(true).open(&path).unwrap();
                }
            });
            while !writer.is_finished() {
                is_open_for_writing(&read).unwrap();
            }
        });
        assert!(!is_open_for_writing(&read).unwrap());
    }
}
