use std::{
    fs, io,
    sync::{
        Once,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// How many forks lie between this process and the one that asked first.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the one that asked first: what was made with another count has the locks of
/// threads that this process lacks.
pub fn forks() -> u32 {
    static COUNTS: Once = Once::new();
    COUNTS.call_once(|| {
        // SAFETY: the function lives as long as the program, and adds to a number, which is sound wherever it is called. If
        // there is no memory for it, the count stays as it is, which is right until the process is forked.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
    FORKS.load(Relaxed)
}

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
}

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
