use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// How many requests of each kind reached the process, by the name of the kind.
pub type Requests = BTreeMap<String, u64>;

/// The kinds of requests to an image or a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Look up a name.
    Lookup,
    /// Get attributes.
    GetAttr,
    /// List a part of a directory.
    ReadDir,
    /// Read the target of a symbolic link.
    ReadLink,
    /// Get the value of an extended attribute.
    GetXattr,
    /// List the names of extended attributes.
    ListXattr,
    /// Find data or a hole.
    Seek,
    /// Read a range.
    Read,
    /// Write a range.
    Write,
    /// Make completed writes durable.
    Flush,
    /// Discard a range.
    Discard,
    /// Write zeros to a range.
    Zero,
}

impl Operation {
    const COUNT: usize = Self::Zero as usize + 1;

    fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::GetAttr => "getattr",
            Self::ReadDir => "readdir",
            Self::ReadLink => "readlink",
            Self::GetXattr => "getxattr",
            Self::ListXattr => "listxattr",
            Self::Seek => "lseek",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Zero => "zero",
        }
    }
}

/// Counts requests.
#[derive(Debug)]
pub(crate) struct RequestCounters {
    counted: &'static [Operation],
    counts: [AtomicU64; Operation::COUNT],
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
