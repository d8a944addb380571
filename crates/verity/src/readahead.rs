/// How far ahead of sequential reads the Merkle tree is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TreeReadahead {
    /// A window that suits most storage: enough tree for [`Self::AUTO_BYTES`] of data.
    #[default]
    Auto,
    /// Only the blocks that the read itself needs.
    Off,
    /// Enough tree for this many bytes of data.
    Bytes(u64),
}

impl TreeReadahead {
    /// How much data the tree blocks of an automatic window cover.
    ///
    /// With SHA-256 and blocks of 4 KiB this is 512 KiB of tree, one block of the level above: a
    /// request every 64 MiB, and hashing it takes well under a millisecond.
    pub const AUTO_BYTES: u64 = 64 << 20;

    /// The largest window in bytes of the tree, so that a huge one cannot exhaust memory.
    const MAX_TREE_BYTES: u64 = 2 << 20;

    /// The window in blocks of level 0, each of which covers `data_per_block` bytes; at least one.
    pub(crate) fn blocks(self, data_per_block: u64, block_size: u64) -> u64 {
        let bytes = match self {
            Self::Auto => Self::AUTO_BYTES,
            Self::Off => 0,
            Self::Bytes(bytes) => bytes,
        };
        (bytes / data_per_block)
            .min(Self::MAX_TREE_BYTES / block_size)
            .max(1)
    }
}
