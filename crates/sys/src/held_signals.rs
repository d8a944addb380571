use std::{io, marker::PhantomData, mem::MaybeUninit, ptr};

use crate::checked::checked;

/// Signals that are held back from the thread that holds them: they wait until this is dropped. A thread, a process or a
/// program that it starts meanwhile begins with them held back, too.
#[derive(Debug)]
#[must_use]
pub struct HeldSignals {
    before: libc::sigset_t,
    /// Each thread has its own.
    _thread: PhantomData<*const ()>,
}

impl HeldSignals {
    /// Holds these signals back from the calling thread.
    ///
    /// # Errors
    /// `EINVAL` for what is no signal.
    pub fn hold(signals: &[i32]) -> io::Result<Self> {
        let signals = set_of(signals)?;
        let mut before = MaybeUninit::uninit();
        // SAFETY: the call reads one set, and writes the other one.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, before.as_mut_ptr()) } {
            0 => Ok(Self {
                // SAFETY: the call has succeeded, and so has written it.
                before: unsafe { before.assume_init() },
                _thread: PhantomData,
            }),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the call reads the set, and writes none.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

fn set_of(signals: &[i32]) -> io::Result<libc::sigset_t> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the call writes the set, which makes it an empty one; it cannot fail.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for signal in signals {
        // SAFETY: the call changes the set, which is one.
        checked(unsafe { libc::sigaddset(&mut set, *signal) })?;
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    /// The signals that a `status` of `/proc` shows as held back, the first in the lowest bit.
    fn held(status: &str) -> u64 {
        let digits = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        u64::from_str_radix(digits.unwrap().trim(), 16).unwrap()
    }

    fn own() -> u64 {
        held(&fs::read_to_string("/proc/thread-self/status").unwrap())
    }

    #[test]
    fn the_thread_and_what_it_starts_hold_them_back() {
        let before = own();
        let signals = [libc::SIGHUP, libc::SIGINT];
        let all = signals
            .iter()
            .fold(before, |set, signal| set | 1 << (signal - 1));
        assert_ne!(all, before);
        let holding = HeldSignals::hold(&signals).unwrap();
        assert_eq!(own(), all);
        let program = Command::new("cat").arg("/proc/self/status").output();
        assert_eq!(held(str::from_utf8(&program.unwrap().stdout).unwrap()), all);
        drop(holding);
        assert_eq!(own(), before);
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        for wrong in [-1, 0, 1000] {
            let refused = HeldSignals::hold(&[libc::SIGINT, wrong]).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EINVAL), "{wrong}");
        }
    }
}
