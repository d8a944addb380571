use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{ReadAt, ReadError, WriteAt, WriteError};

/// How many reads reached a source, and how many bytes they requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadCounts {
    /// Calls of [`ReadAt::read_exact_at`].
    pub requests: u64,
    /// Bytes that those calls requested.
    pub bytes: u64,
}

/// How many writes and flushes reached a storage, and how many bytes they wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteCounts {
    /// Calls of [`WriteAt::write_all_at`] and [`WriteAt::write_durable_at`].
    pub requests: u64,
    /// Of these, calls of [`WriteAt::write_durable_at`].
    pub durable: u64,
    /// Bytes those calls wrote.
    pub bytes: u64,
    /// Bytes that calls of [`WriteAt::zero`] made zero.
    pub zeroed: u64,
    /// Calls of [`WriteAt::flush`].
    pub flushes: u64,
}

/// Counts the requests to another source or storage. Hints are not counted.
#[derive(Debug, Default)]
pub struct Counting<S> {
    inner: S,
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    durable_writes: AtomicU64,
    bytes_written: AtomicU64,
    bytes_zeroed: AtomicU64,
    flushes: AtomicU64,
}

impl<S> Counting<S> {
    /// Counts the requests to `inner` from now on.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            reads: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            durable_writes: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            bytes_zeroed: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        }
    }

    /// All reads so far.
    pub fn counts(&self) -> ReadCounts {
        ReadCounts {
            requests: self.reads.load(Relaxed),
            bytes: self.bytes_read.load(Relaxed),
        }
    }

    /// All writes and flushes so far.
    pub fn write_counts(&self) -> WriteCounts {
        WriteCounts {
            requests: self.writes.load(Relaxed),
            durable: self.durable_writes.load(Relaxed),
            bytes: self.bytes_written.load(Relaxed),
            zeroed: self.bytes_zeroed.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
        }
    }

    /// The source behind the counter.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn count_write(&self, bytes: &[u8]) {
        self.writes.fetch_add(1, Relaxed);
        self.bytes_written.fetch_add(bytes.len() as u64, Relaxed);
    }
}

impl<S: ReadAt> ReadAt for Counting<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Relaxed);
        self.bytes_read.fetch_add(buf.len() as u64, Relaxed);
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
        self.durable_writes.fetch_add(1, Relaxed);
        self.inner.write_durable_at(bytes, offset)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.bytes_zeroed.fetch_add(len, Relaxed);
        self.inner.zero(offset, len)
    }

    fn flush(&self) -> Result<(), WriteError> {
        self.flushes.fetch_add(1, Relaxed);
        self.inner.flush()
    }

    fn begin_flush(&self) -> Result<(), WriteError> {
        self.inner.begin_flush()
    }
}
