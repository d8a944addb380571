use std::{
    fs, io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};

/// A process that serves a mount or an export. Its start time distinguishes it from other processes that
/// have the same id later or in another namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    pid: i32,
    /// Its start time, in clock ticks since boot.
    started: u64,
}

/// A handle to wait for the end of a process.
pub struct DaemonEnd(OwnedFd);

impl Daemon {
    /// This process; `None` without `/proc`.
    pub fn current() -> Option<Self> {
        let pid = getpid();
        Some(Self {
            pid: pid.as_raw_nonzero().get(),
            started: started(pid)?,
        })
    }

    /// The process, by the id that it has in this PID namespace.
    pub fn numbered(self, pid: i32) -> Self {
        Self { pid, ..self }
    }

    /// Its process id, in its own PID namespace.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// A handle to wait for its end, if it still runs and is visible from here.
    pub fn end(&self) -> Option<DaemonEnd> {
        let end = DaemonEnd::of(self.pid)?;
        // Checked after opening: if it is the right process now, it was so then.
        (started(Pid::from_raw(self.pid)?)? == self.started).then_some(end)
    }
}

impl DaemonEnd {
    /// That of the process with this id, if there is one.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let pid = Pid::from_raw(pid)?;
        pidfd_open(pid, PidfdFlags::empty()).ok().map(Self)
    }

    /// Kills the process.
    pub(crate) fn force(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.0, Signal::KILL) {
            // It has ended.
            Err(Errno::SRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }

    /// Asks the process to end, as a first SIGTERM does.
    ///
    /// # Errors
    /// `EPERM` if the process is another user's.
    pub fn ask_for(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::TERM)?)
    }

    /// Waits until the process has ended, but not longer than `time`. Returns whether it has.
    pub fn wait(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(left) = Timespec::try_from(left) else {
                return false;
            };
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&left)) {
                Err(Errno::INTR) => {}
                ended => return ended.is_ok_and(|count| count > 0),
            }
        }
    }
}

/// A process's start time: the 22nd field of its `stat`. The second field is a name in parentheses,
/// which can contain spaces and parentheses.
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
        assert!(!end.wait(Duration::ZERO));
        drop(child.stdin.take());
        assert!(end.wait(Duration::from_secs(60)));
        assert!(child.wait().unwrap().success());
        assert!(daemon.end().is_none());
        assert!(Daemon::current().unwrap().end().is_some());
    }
}
