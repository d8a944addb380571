use std::{fmt, ops::Range};

use thiserror::Error;

use crate::Digest;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A block of the data.
    Data,
    /// A block of this level of the Merkle tree; level 0 holds the digests of the data.
    Tree(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data => f.write_str("data"),
            Self::Tree(level) => write!(f, "tree level {level}"),
        }
    }
}

/// A block that does not have the digest it should have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place} block at {offset} does not match: expected {expected:?}, got {actual:?}")]
pub struct Mismatch {
    /// What kind of block it is.
    pub place: Place,
    /// Where the block begins, in bytes: in the data or in the stored tree.
    pub offset: u64,
    /// The bytes of data that the block holds or vouches for.
    pub covers: Range<u64>,
    /// The digest it should have.
    pub expected: Digest,
    /// The digest it has.
    pub actual: Digest,
}
