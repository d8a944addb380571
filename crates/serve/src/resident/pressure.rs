use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::{CWD, Mode, OFlags, openat},
    io::{Errno, retry_on_intr, write},
};

/// When the kernel is to tell: if, of two seconds, any thread has waited for memory for a tenth (`Documentation/accounting/psi.rst`).
/// Root in a container often lacks `CAP_SYS_RESOURCE`, without which only multiples of two seconds are allowed.
const TRIGGER: &[u8] = b"some 200000 2000000\0";

/// Where the kernel tells that the machine is short of memory.
#[derive(Debug)]
pub(super) struct Trigger(OwnedFd);

impl Trigger {
    /// # Errors
    /// Those of the kernel, if it does not tell.
    pub(super) fn new() -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let trigger = openat(CWD, c"/proc/pressure/memory", flags, Mode::empty())?;
        write(&trigger, TRIGGER)?;
        Ok(Self(trigger))
    }
}

/// Waits for a trigger, until that is ended. Of several who wait for the same one, any is told.
#[derive(Debug)]
pub(super) struct Pressure {
    trigger: Arc<Trigger>,
    end: OwnedFd,
}

impl Pressure {
    /// # Errors
    /// Those of `eventfd`.
    pub(super) fn new(trigger: Arc<Trigger>) -> Result<Self, Errno> {
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self { trigger, end })
    }

    /// Waits until memory is short; false if there is no more need to wait.
    pub(super) fn wait(&self) -> bool {
        let mut watched = [
            PollFd::from_borrowed_fd(self.trigger.0.as_fd(), PollFlags::PRI),
            PollFd::from_borrowed_fd(self.end.as_fd(), PollFlags::IN),
        ];
        if retry_on_intr(|| poll(&mut watched, None)).is_err() {
            return false;
        }
        let told = watched[0].revents();
        told.contains(PollFlags::PRI)
            && !told.contains(PollFlags::ERR)
            && watched[1].revents().is_empty()
    }

    /// Ends all waiting.
    pub(super) fn end(&self) {
        // It fails only if the counter is full, which also ends it.
        let _ = write(&self.end, &1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use verimount_testkit::needs;

    use super::*;

    #[test]
    fn waiting_ends() {
        let trigger = match Trigger::new() {
            // This kernel measures no pressure.
            Err(Errno::NOENT | Errno::OPNOTSUPP) => needs!(None),
            made => Arc::new(made.unwrap()),
        };
        let pressure = Pressure::new(trigger.clone()).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| while pressure.wait() {});
            pressure.end();
            waiting.join().unwrap();
        });
        assert!(!pressure.wait());
    }
}
