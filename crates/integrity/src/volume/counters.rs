use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a volume did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VolumeStats {
    /// Bytes that were read and matched their tags.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Blocks that were read and did not match their tags.
    pub mismatches: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    mismatches: AtomicU64,
}

impl Counters {
    pub(super) fn count_read(&self, len: usize) {
        self.bytes_read.fetch_add(len as u64, Relaxed);
    }

    pub(super) fn count_write(&self, len: usize) {
        self.bytes_written.fetch_add(len as u64, Relaxed);
    }

    pub(super) fn count_mismatches(&self, count: usize) {
        self.mismatches.fetch_add(count as u64, Relaxed);
    }

    pub(super) fn stats(&self) -> VolumeStats {
        VolumeStats {
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            mismatches: self.mismatches.load(Relaxed),
        }
    }
}
