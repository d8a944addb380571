use std::{fs, io};

/// Which of the two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The one that called [`fork`].
    Parent,
    /// The new one.
    Child,
}

/// Makes a copy of this process, which must have one thread only. Both go on from here.
///
/// # Errors
/// An error if there are other threads, or `/proc` does not say how many there are; otherwise the system's.
pub fn fork() -> io::Result<Forked> {
    let threads = fs::read_dir("/proc/self/task").map_err(|error| {
        let text = format!("/proc does not say how many threads this process has: {error}");
        io::Error::new(error.kind(), text)
    })?;
    if threads.count() != 1 {
        return Err(io::Error::other("the process has several threads"));
    }
    // SAFETY: this thread is the only one, and nobody else can start another. So no lock is held by a thread that the copy
    // lacks, and all that is sound in this process is sound in the copy: it has its own memory, and shares only open
    // files, as any two processes may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        _ => Ok(Forked::Parent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_several_threads_is_not_copied() {
        // The test's own thread is not the first.
        assert!(fork().is_err());
    }
}
