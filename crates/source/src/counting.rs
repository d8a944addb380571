use std::sync::atomic::Ordering::Relaxed;

use crate::{ReadAt, ReadError, WriteAt, WriteError, counters};

counters! {
    /// How many reads reached a source, and how many bytes they requested.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ReadCounts {
        /// Calls of [`ReadAt::read_exact_at`].
        requests,
        /// Bytes that those calls requested.
        bytes,
    }
    struct ReadCounters;
}

counters! {
    /// How many writes and flushes reached a storage, and how many bytes they wrote.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct WriteCounts {
        /// Calls of [`WriteAt::write_all_at`] and [`WriteAt::write_durable_at`].
        requests,
        /// Of these, calls of [`WriteAt::write_durable_at`].
        durable,
        /// Bytes those calls wrote.
        bytes,
        /// Bytes that calls of [`WriteAt::zero`] made zero.
        zeroed,
        /// Calls of [`WriteAt::flush`].
        flushes,
    }
    struct WriteCounters;
}

/// Counts the requests to another source or storage. Hints are not counted.
#[derive(Debug, Default)]
pub struct Counting<S> {
    inner: S,
    reads: ReadCounters,
    writes: WriteCounters,
}

impl<S> Counting<S> {
    /// Counts the requests to `inner` from now on.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            reads: ReadCounters::default(),
            writes: WriteCounters::default(),
        }
    }

    /// All reads so far.
    pub fn counts(&self) -> ReadCounts {
        self.reads.stats()
    }

    /// All writes and flushes so far.
    pub fn write_counts(&self) -> WriteCounts {
        self.writes.stats()
    }

    /// The source behind the counter.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn count_write(&self, bytes: &[u8]) {
        self.writes.requests.fetch_add(1, Relaxed);
        self.writes.bytes.fetch_add(bytes.len() as u64, Relaxed);
    }
}

impl<S: ReadAt> ReadAt for Counting<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.reads.requests.fetch_add(1, Relaxed);
        self.reads.bytes.fetch_add(buf.len() as u64, Relaxed);
        self.inner.read_exact_at(buf, offset)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.inner.will_need(offset, len);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        self.inner.will_reach(offset, len);
    }
}

impl<S: WriteAt> WriteAt for Counting<S> {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.count_write(bytes);
        self.inner.write_all_at(bytes, offset)
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.count_write(bytes);
        self.writes.durable.fetch_add(1, Relaxed);
        self.inner.write_durable_at(bytes, offset)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.writes.zeroed.fetch_add(len, Relaxed);
        self.inner.zero(offset, len)
    }

    fn flush(&self) -> Result<(), WriteError> {
        self.writes.flushes.fetch_add(1, Relaxed);
        self.inner.flush()
    }

    fn begin_flush(&self) -> Result<(), WriteError> {
        self.inner.begin_flush()
    }
}
