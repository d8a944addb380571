use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{ReadAt, ReadError};

/// How many reads reached a source, and how many bytes they asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadCounts {
    /// Calls of [`ReadAt::read_exact_at`].
    pub requests: u64,
    /// Bytes those calls asked for.
    pub bytes: u64,
}

/// Counts the reads that pass through to another source. Hints are not reads.
#[derive(Debug, Default)]
pub struct Counting<S> {
    inner: S,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl<S> Counting<S> {
    /// Counts the reads of `inner` from now on.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> ReadCounts {
        ReadCounts {
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    /// The source behind the counter.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: ReadAt> ReadAt for Counting<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.requests.fetch_add(1, Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Relaxed);
        self.inner.read_exact_at(buf, offset)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.inner.will_need(offset, len);
    }
}
