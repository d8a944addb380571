use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

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

fn fcntl(file: &impl AsFd, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: these commands take a number and touch no memory. The descriptor is borrowed, so it
    // stays open.
    match unsafe { libc::fcntl(descriptor, command, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{File, OpenOptions},
        thread,
    };

    use super::*;

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
