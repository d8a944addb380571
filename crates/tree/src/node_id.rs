use std::{fmt, num::NonZeroU64};

/// Identifies a file of a tree, of any type: a number that is never 0. All hard links
/// to a file have the same. Bits 51 to 62 are never set: who serves several trees as one can put the number of the tree there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(NonZeroU64);

impl NodeId {
    /// The root directory, in every tree: 1, as in FUSE.
    pub const ROOT: Self = Self(NonZeroU64::MIN);

    /// The bits that are never set.
    const FREE: u64 = ((1 << 12) - 1) << 51;

    /// The file with this number; `None` for a number that no file has.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) if number.get() & Self::FREE == 0 => Some(Self(number)),
            _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_bits_are_free() {
        for number in [1, (1 << 51) - 1, 1 << 63, 1 << 63 | 36] {
            assert_eq!(NodeId::new(number).map(NodeId::get), Some(number));
        }
        for number in [0, 1 << 51, 1 << 62, u64::MAX] {
            assert_eq!(NodeId::new(number), None, "{number:#x}");
        }
    }
}
