use crate::{chunks::Chunks, compressed::Compressed, space::Address};

/// How the content of a file is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Layout {
    /// Nowhere: it is all zeros.
    Hole,
    /// In blocks that follow each other, and perhaps its end elsewhere.
    Flat {
        /// Where the blocks begin, in bytes; as a chunk without a device.
        at: u64,
        tail: Option<Tail>,
    },
    /// In chunks.
    Chunks(Chunks),
    /// Compressed, in clusters.
    Compressed(Compressed),
}

impl Layout {
    /// Where the content's blocks begin, if they follow each other and are not all in the tail.
    pub(crate) fn blocks_at(&self) -> Option<u64> {
        match *self {
            Self::Flat { at, tail } if tail.is_none_or(|tail| tail.from > 0) => Some(at),
            _ => None,
        }
    }
}

/// The end of a file that is behind its inode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    /// Where it begins in the file: a multiple of the block size.
    pub(crate) from: u64,
    /// Where it is stored.
    pub(crate) at: Address,
}
