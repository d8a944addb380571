use std::{fmt, ops::Range};

use thiserror::Error;

use crate::Digest;

/// Which kind of block it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// A block of the data.
    Data,
    /// A block of this level of the Merkle tree; level 0 holds the digests of the data.
    Tree(usize),
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data => f.write_str("data"),
            Self::Tree(level) => write!(f, "tree level {level}"),
        }
    }
}

/// A block whose digest is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place} block at {offset} does not match: expected {expected:?}, got {actual:?}")]
pub struct Mismatch {
    /// What kind of block it is.
    pub place: BlockKind,
    /// Offset of the block in the data or in the stored tree, in bytes.
    pub offset: u64,
    /// The bytes of data that the block holds or covers.
    pub covers: Range<u64>,
    /// The expected digest.
    pub expected: Digest,
    /// The digest of its bytes.
    pub actual: Digest,
}
