use std::{
    fs, io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use crate::checked::checked;

/// The first descriptor behind standard input, output and error.
const FIRST: RawFd = 3;

/// The descriptors that this process inherited, except the standard three. They keep their numbers,
/// for paths such as `/dev/fd/63`, and are closed when dropped.
///
/// Only the first call finds any. All files that the process has opened itself by then must be
/// close-on-exec, as the standard library's are.
///
/// # Errors
/// Those of reading `/proc/self/fd`, and of `fcntl` for a descriptor.
pub fn take_inherited() -> io::Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Relaxed) {
        return Ok(Vec::new());
    }
    let mut inherited = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(descriptor) = number.filter(|number| *number >= FIRST)
            && stays_open_on_exec(descriptor)?
        {
            // SAFETY: it is open, as it has flags. Nothing in this process owns it: the caller
            // guarantees that all files opened here are close-on-exec, and this one is not. Nor is
            // it given away twice: only one call gets this far.
            inherited.push(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
    Ok(inherited)
}

/// Whether programs that this process executes inherit the descriptor. One that another thread has
/// closed since it was listed is nobody's.
fn stays_open_on_exec(descriptor: RawFd) -> io::Result<bool> {
    // SAFETY: the call only returns flags, or an error if the descriptor is not open.
    match checked(unsafe { libc::fcntl(descriptor, libc::F_GETFD) }) {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(false),
        flags => flags.map(|flags| flags & libc::FD_CLOEXEC == 0),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, pipe},
        os::fd::{AsRawFd, IntoRawFd},
    };

    use super::*;

    #[test]
    fn descriptors_without_close_on_exec_are_inherited() {
        let (mut reader, writer) = pipe().unwrap();
        // As it would be after exec: nobody's, and without the flag.
        let left = writer.into_raw_fd();
        // SAFETY: the descriptor is open, and the call changes nothing else but its flags.
        assert_eq!(unsafe { libc::fcntl(left, libc::F_SETFD, 0) }, 0);

        let inherited = take_inherited().unwrap();
        let numbers: Vec<_> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
        assert!(numbers.contains(&left), "{numbers:?}");
        assert!(!numbers.contains(&reader.as_raw_fd()), "{numbers:?}");
        assert!(take_inherited().unwrap().is_empty());

        drop(inherited);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the pipe is still open");
    }
}
