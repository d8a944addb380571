use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts what several [`VerifiedReader`](crate::VerifiedReader)s read and verify together.
#[derive(Debug, Default)]
pub struct Account {
    bytes_verified: AtomicU64,
    data_requests: AtomicU64,
    tree_requests: AtomicU64,
    tree_bytes: AtomicU64,
}

/// What was read and verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyStats {
    /// Bytes of data that were verified, in whole blocks.
    pub bytes_verified: u64,
    /// Reads of data.
    pub data_requests: u64,
    /// Reads of tree blocks.
    pub tree_requests: u64,
    /// Bytes of tree blocks read.
    pub tree_bytes: u64,
}

impl Account {
    /// What was counted so far.
    pub fn stats(&self) -> VerifyStats {
        VerifyStats {
            bytes_verified: self.bytes_verified.load(Relaxed),
            data_requests: self.data_requests.load(Relaxed),
            tree_requests: self.tree_requests.load(Relaxed),
            tree_bytes: self.tree_bytes.load(Relaxed),
        }
    }

    pub(crate) fn note_verified(&self, bytes: usize) {
        self.bytes_verified.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn note_data_request(&self) {
        self.data_requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn note_tree_request(&self, bytes: usize) {
        self.tree_requests.fetch_add(1, Relaxed);
        self.tree_bytes.fetch_add(bytes as u64, Relaxed);
    }
}
