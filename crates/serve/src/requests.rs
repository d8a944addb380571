use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// How many requests of each kind reached the process, by name.
pub type Requests = BTreeMap<String, u64>;

/// What is asked of an image or of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A name.
    Lookup,
    /// Attributes.
    GetAttr,
    /// A part of a directory.
    ReadDir,
    /// A symbolic link.
    ReadLink,
    /// A part of a file.
    Read,
    /// A part of a file is written.
    Write,
    /// What was written is made durable.
    Flush,
    /// A part is discarded.
    Discard,
    /// A part is made zero.
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
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Zero => "zero",
        }
    }
}

/// Counts requests as they come.
#[derive(Debug)]
pub(crate) struct RequestCounters {
    counted: &'static [Operation],
    counts: [AtomicU64; Operation::COUNT],
}

impl RequestCounters {
    /// Tells of these operations, and no others.
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
