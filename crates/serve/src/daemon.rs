use std::{fs, io, os::fd::OwnedFd};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};

/// A process that serves a mount or an export, told from all others that ever have its number, here or in another
/// namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    pid: i32,
    /// When it was started, in clock ticks since the machine was.
    started: u64,
}

/// The end of a process, to be waited for.
pub struct DaemonEnd(OwnedFd);

impl Daemon {
    /// This process; `None` without `/proc`.
    pub(crate) fn current() -> Option<Self> {
        let pid = getpid();
        Some(Self {
            pid: pid.as_raw_nonzero().get(),
            started: started(pid)?,
        })
    }

    /// The process of this number, if it is the one that says that it is `self`. In another PID namespace
    /// it has another number.
    pub(crate) fn numbered(self, pid: i32) -> Self {
        Self { pid, ..self }
    }

    /// Its number, where it runs.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its end, if it is still there and can be seen from here.
    pub fn end(&self) -> Option<DaemonEnd> {
        let pid = Pid::from_raw(self.pid)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Asked afterwards: if it is the right one now, it was then.
        (started(pid)? == self.started).then_some(DaemonEnd(handle))
    }
}

impl DaemonEnd {
    /// Asks the process to end, as a first SIGTERM does.
    ///
    /// # Errors
    /// `EPERM` if it is another user's.
    pub fn ask_for(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::TERM)?)
    }

    /// Waits until the process has ended.
    pub fn wait(self) {
        // A signal that does not end the waiting process does not end the waiting either.
        while poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None) == Err(Errno::INTR) {}
    }
}

/// When a process was started: the 22nd field of its `stat`, of which the second is a name in
/// parentheses that may hold anything.
fn started(pid: Pid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_end_of_a_process_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let daemon = Daemon {
            pid: pid.as_raw_nonzero().get(),
            started: started(pid).unwrap(),
        };
        let end = daemon.end().unwrap();
        let another = Daemon {
            started: daemon.started + 1,
            ..daemon
        };
        assert!(another.end().is_none());
        drop(child.stdin.take());
        end.wait();
        assert!(child.wait().unwrap().success());
        assert!(daemon.end().is_none());
        assert!(Daemon::current().unwrap().end().is_some());
    }
}
