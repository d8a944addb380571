//! What reading an image takes, counted in steps: unlike time, the same on every machine.

use std::sync::atomic::Ordering::Relaxed;

use verimount_source::counters;

counters! {
    /// What reading an image has taken since it was opened.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Work {
        /// Records of files' maps that were looked at: of chunks, of extents, and of logical clusters.
        records,
        /// Clusters that were decompressed.
        clusters,
        /// Extended attributes that were looked at.
        attributes,
    }
    /// Counts [`Work`].
    pub(crate) struct Counters;
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
}
