use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a process did with its [`Cache`](crate::Cache) so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheStats {
    /// Bytes read from it.
    pub read: u64,
    /// Bytes written to it.
    pub written: u64,
    /// Bytes dropped because their reader found them wrong.
    pub rejected: u64,
    /// Bytes evicted to keep it within its size.
    pub evicted: u64,
    /// Reads, writes and evictions that failed.
    pub failures: u64,
}

/// Counts for [`CacheStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl Counters {
    pub(crate) fn get(&self) -> CacheStats {
        CacheStats {
            read: self.read.load(Relaxed),
            written: self.written.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            failures: self.failures.load(Relaxed),
        }
    }
}
