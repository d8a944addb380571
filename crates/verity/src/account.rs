use std::sync::atomic::Ordering::Relaxed;

use verimount_source::counters;

counters! {
    /// What was read and verified.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct VerifyStats {
        /// Bytes of data that were verified, in whole blocks.
        bytes_verified,
        /// Reads of data.
        data_requests,
        /// Reads of tree blocks.
        tree_requests,
        /// Bytes of tree blocks read.
        tree_bytes,
    }
    /// Counts what several [`VerifiedReader`](crate::VerifiedReader)s read and verify together.
    pub struct Account;
}

impl Account {
    pub(crate) fn note_tree_request(&self, bytes: usize) {
        self.tree_requests.fetch_add(1, Relaxed);
        self.tree_bytes.fetch_add(bytes as u64, Relaxed);
    }
}
