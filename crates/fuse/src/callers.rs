use std::{fs::File, io::Read, os::fd::OwnedFd};

use rustix::{
    fs::{Mode, OFlags, open, openat, readlinkat},
    process::getpid,
};

/// The bit of SIGKILL in a signal set.
const SIGKILL: u64 = 1 << 8;

/// An upper bound for the length of a thread's `stat`, in bytes.
const MAX_STAT: u64 = 4096;

/// Finds out from `/proc` which callers were killed.
pub(crate) struct Callers(OwnedFd);

impl Callers {
    /// `None` if `/proc` belongs to another PID namespace than the ids in requests.
    pub(crate) fn open() -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = open("/proc", flags, Mode::empty()).ok()?;
        let own = readlinkat(&proc, "self", Vec::new()).ok()?;
        let number = getpid().as_raw_nonzero().to_string();
        (own.to_bytes() == number.as_bytes()).then_some(Self(proc))
    }

    /// Whether a thread was killed and has not ended yet because it waits for an answer. The kernel
    /// turns every signal that ends a process without a core dump into SIGKILL for each of its threads.
    pub(crate) fn is_killed(&self, pid: u32) -> bool {
        self.pending(pid).is_some_and(|set| set & SIGKILL != 0)
    }

    /// The signals pending for the thread (not for its process as a whole).
    fn pending(&self, pid: u32) -> Option<u64> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let stat = openat(&self.0, format!("{pid}/stat"), flags, Mode::empty()).ok()?;
        let mut text = Vec::new();
        File::from(stat)
            .take(MAX_STAT)
            .read_to_end(&mut text)
            .ok()?;
        pending(&text)
    }
}

/// The 31st field of a thread's `stat`. The second field is a name in parentheses, which can contain
/// spaces and parentheses.
fn pending(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let mut fields = str::from_utf8(&stat[end + 1..]).ok()?.split_whitespace();
    fields.nth(31 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn a_running_thread_was_not_killed() {
        let callers = Callers::open().unwrap();
        assert_eq!(callers.pending(process::id()), Some(0));
        assert!(!callers.is_killed(process::id()));
        assert!(!callers.is_killed(u32::MAX));
    }

    #[test]
    fn pending_signals_are_parsed() {
        let stat = |name: &str, set: &str| {
            let before = "0 ".repeat(27);
            format!("7 ({name}) D {before}{set} 0 0\n").into_bytes()
        };
        assert_eq!(pending(&stat("cat", "256")), Some(SIGKILL));
        assert_eq!(pending(&stat("a) D 1 2", "8192")), Some(1 << 13));
        for wrong in [&b""[..], b"7 (cat", b"7 (cat) D 0 0", &stat("cat", "x")] {
            assert_eq!(pending(wrong), None);
        }
    }
}
