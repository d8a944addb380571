use std::{fmt, num::NonZeroU64};

/// Identifies a file of a tree, of any type: the inode number that users see, never 0. All hard links
/// to a file have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(NonZeroU64);

impl NodeId {
    /// The root directory, in every tree: 1, as in FUSE.
    pub const ROOT: Self = Self(NonZeroU64::MIN);

    /// The file with this number; `None` for 0.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
