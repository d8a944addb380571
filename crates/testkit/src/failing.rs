use std::{
    fmt, hint, io,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use verimount_source::{ReadAt, ReadError, WriteAt, WriteError};

use crate::{Random, Recorder};

/// The maximum delay of a request in loop iterations: some microseconds, so that requests of other
/// threads interleave.
const MAX_DELAY: usize = 100;

/// Which requests fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutageKind {
    /// One write or flush fails.
    Once,
    /// All writes and flushes fail from one on: the device is gone.
    Lasting,
    /// All writes fail from one on, but no flush: the device is full.
    Full,
    /// One write or flush panics with [`Panicked`], and has no effect.
    Panic,
    /// No request fails, but one flush takes longer.
    Pause,
}

/// The payload of an injected panic, which prints no message.
#[derive(Debug)]
pub struct Panicked;

impl OutageKind {
    /// All kinds in which a request fails.
    pub const ALL: [Self; 4] = [Self::Once, Self::Lasting, Self::Full, Self::Panic];
}

/// An injected failure of the devices of a volume.
pub struct Outage {
    kind: OutageKind,
    /// The number of writes and flushes that succeed before it.
    good: u64,
    requests: AtomicU64,
    has_begun: AtomicBool,
    before_report: Box<dyn Fn() + Send + Sync>,
}

/// A device with an [`Outage`] and a short delay for each write and flush.
///
/// A failing write stores its first half. A failing flush loses the writes that it should make
/// durable, and reports this to only one caller: a concurrent flush may succeed.
#[derive(Debug)]
pub struct Failing {
    inner: Arc<Recorder>,
    outage: Arc<Outage>,
    /// Writes were lost, and the loss has not been reported yet.
    has_lost: AtomicBool,
}

impl Outage {
    /// An outage after `good` successful writes and flushes.
    pub fn new(kind: OutageKind, good: u64) -> Self {
        Self {
            kind,
            good,
            requests: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            before_report: Box::new(|| ()),
        }
    }

    /// Runs `action` before a failure is reported or a delayed flush returns.
    pub fn with_action(self, action: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            before_report: Box::new(action),
            ..self
        }
    }

    /// Whether the outage has occurred.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(SeqCst)
    }

    /// Counts a request, and returns whether the outage affects it.
    fn meets(&self, is_flush: bool) -> bool {
        let number = self.requests.fetch_add(1, SeqCst);
        for _ in 0..Random::new(number ^ self.good << 32).below(MAX_DELAY) {
            hint::spin_loop();
        }
        let is_met = match self.kind {
            OutageKind::Once | OutageKind::Panic | OutageKind::Pause => number == self.good,
            OutageKind::Lasting => number >= self.good,
            OutageKind::Full => number >= self.good && !is_flush,
        };
        if is_met {
            self.has_begun.store(true, SeqCst);
        }
        if is_met && self.kind == OutageKind::Panic {
            resume_unwind(Box::new(Panicked));
        }
        is_met
    }
}

impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after {} requests", self.kind, self.good)
    }
}

impl Failing {
    /// `inner` with this outage.
    pub fn new(inner: Arc<Recorder>, outage: Arc<Outage>) -> Self {
        Self {
            inner,
            outage,
            has_lost: AtomicBool::new(false),
        }
    }

    fn write(
        &self,
        bytes: &[u8],
        offset: u64,
        write: impl FnOnce(&[u8]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        if !self.outage.meets(false) || self.outage.kind == OutageKind::Pause {
            return write(bytes);
        }
        let half = bytes.len() / 2 / 512 * 512;
        self.inner.write_all_at(&bytes[..half], offset)?;
        (self.outage.before_report)();
        Err(WriteError::Io {
            offset,
            len: bytes.len() as u64,
            source: failure(),
        })
    }
}

impl ReadAt for Failing {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.inner.read_exact_at(buf, offset)
    }
}

impl WriteAt for Failing {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write(bytes, offset, |bytes| {
            self.inner.write_all_at(bytes, offset)
        })
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write(bytes, offset, |bytes| {
            self.inner.write_durable_at(bytes, offset)
        })
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.write(&vec![0; len as usize], offset, |bytes| {
            self.inner.write_all_at(bytes, offset)
        })
    }

    fn flush(&self) -> Result<(), WriteError> {
        let is_met = self.outage.meets(true);
        if is_met && self.outage.kind != OutageKind::Pause {
            self.inner.lose();
            self.has_lost.store(true, SeqCst);
        } else {
            self.inner.flush()?;
        }
        if is_met {
            (self.outage.before_report)();
        }
        // Requests of other threads may interleave here, as they do while the system waits for the
        // device.
        for _ in 0..MAX_DELAY {
            hint::spin_loop();
        }
        if self.has_lost.swap(false, SeqCst) {
            Err(WriteError::Flush(failure()))
        } else {
            Ok(())
        }
    }

    fn begin_flush(&self) -> Result<(), WriteError> {
        if self.outage.meets(true) && self.outage.kind != OutageKind::Pause {
            (self.outage.before_report)();
            Err(WriteError::Flush(failure()))
        } else {
            Ok(())
        }
    }
}

fn failure() -> io::Error {
    io::Error::other("injected fault")
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::Recording;

    fn failing(kind: OutageKind, good: u64) -> (Recording, Failing) {
        let recording = Recording::new(vec![vec![0; 2048]]);
        let device = recording.devices().next().unwrap();
        (
            recording,
            Failing::new(device, Arc::new(Outage::new(kind, good))),
        )
    }

    #[test]
    fn each_kind_fails_the_right_requests() {
        for (kind, expected) in [
            (OutageKind::Once, [true, true, false, true, true, true]),
            (
                OutageKind::Lasting,
                [true, true, false, false, false, false],
            ),
            (OutageKind::Full, [true, true, false, true, false, true]),
        ] {
            let (_, device) = failing(kind, 2);
            let write = || device.write_all_at(&[1; 512], 0).is_ok();
            let flush = || device.flush().is_ok();
            let found = [write(), flush(), write(), flush(), write(), flush()];
            assert_eq!(found, expected, "{kind:?}");
            assert!(device.outage.has_begun());
        }
        let (recording, device) = failing(OutageKind::Panic, 0);
        let write = || device.write_all_at(&[1; 1024], 0);
        let panic = catch_unwind(AssertUnwindSafe(write)).unwrap_err();
        assert!(panic.is::<Panicked>());
        assert_eq!(recording.crash_now().all_survives()[0][0], 0);
        write().unwrap();
    }

    #[test]
    fn failed_writes_store_half_and_failed_flushes_lose_writes() {
        let (recording, device) = failing(OutageKind::Once, 0);
        device.write_all_at(&[1; 1024], 0).unwrap_err();
        let after = recording.crash_now().all_survives();
        assert_eq!((after[0][0], after[0][512]), (1, 0));
        let (recording, device) = failing(OutageKind::Once, 1);
        device.write_all_at(&[1; 1024], 0).unwrap();
        device.flush().unwrap_err();
        device.flush().unwrap();
        assert_eq!(recording.crash_now().all_survives()[0][0], 0);
    }
}
