//! What reading an image takes, counted in steps: unlike time, the same on every machine.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What reading an image has taken since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// Records of files' maps that were looked at: of chunks, of extents, and of logical clusters.
    pub records: u64,
    /// Clusters that were decompressed.
    pub clusters: u64,
    /// Extended attributes that were looked at.
    pub attributes: u64,
}

/// Counts [`Work`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    records: AtomicU64,
    clusters: AtomicU64,
    attributes: AtomicU64,
}

impl Counters {
    /// Records were looked at.
    pub(crate) fn add_records(&self, count: u64) {
        self.records.fetch_add(count, Relaxed);
    }

    /// A cluster was decompressed.
    pub(crate) fn add_cluster(&self) {
        self.clusters.fetch_add(1, Relaxed);
    }

    /// An extended attribute was looked at.
    pub(crate) fn add_attribute(&self) {
        self.attributes.fetch_add(1, Relaxed);
    }

    pub(crate) fn work(&self) -> Work {
        Work {
            records: self.records.load(Relaxed),
            clusters: self.clusters.load(Relaxed),
            attributes: self.attributes.load(Relaxed),
        }
    }
}
