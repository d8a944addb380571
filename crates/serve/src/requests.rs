use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use verimount_names::named;

/// How many requests of each kind reached the process, by the name of the kind.
pub type Requests = BTreeMap<String, u64>;

named! {
    /// The kinds of requests to an image or a volume.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Operation {
        /// Look up a name.
        Lookup = "lookup",
        /// Get attributes.
        GetAttr = "getattr",
        /// List a part of a directory.
        ReadDir = "readdir",
        /// Read the target of a symbolic link.
        ReadLink = "readlink",
        /// Get the value of an extended attribute.
        GetXattr = "getxattr",
        /// List the names of extended attributes.
        ListXattr = "listxattr",
        /// Find data or a hole.
        Seek = "lseek",
        /// Read a range.
        Read = "read",
        /// Write a range.
        Write = "write",
        /// Make completed writes durable.
        Flush = "flush",
        /// Discard a range.
        Discard = "discard",
        /// Write zeros to a range.
        Zero = "zero",
    }
}

/// Counts requests.
#[derive(Debug)]
pub(crate) struct RequestCounters {
    counted: &'static [Operation],
    counts: [AtomicU64; Operation::ALL.len()],
}

impl RequestCounters {
    /// Counts only these operations.
    pub(crate) fn new(counted: &'static [Operation]) -> Self {
        Self {
            counted,
            counts: Default::default(),
        }
    }

    pub(crate) fn count(&self, operation: Operation) {
        self.counts[operation as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn get(&self) -> Requests {
        let count = |operation: Operation| self.counts[operation as usize].load(Relaxed);
        let counted = self.counted.iter();
        let counted = counted.map(|&operation| (operation.name().to_owned(), count(operation)));
        counted.collect()
    }
}
