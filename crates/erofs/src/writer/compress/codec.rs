//! The compressors. Each fills whole blocks with as much of an input as fits.

mod lz4;
mod search;
mod zstd;

pub(super) use self::zstd::window_bits as zstd_window_bits;
use super::Codec;
use crate::{block_size::BlockSize, writer::BuildError};

/// A compressor with its memory.
pub(super) enum Compressor {
    Lz4(lz4::Lz4),
    Zstd(zstd::Zstd),
}

/// Data that was compressed.
pub(super) struct Filled<'c> {
    /// How many bytes of the input it has.
    pub(super) taken: usize,
    pub(super) bytes: &'c [u8],
}

impl Compressor {
    /// For clusters of this many bytes.
    pub(super) fn new(codec: Codec, cluster: usize, block: BlockSize) -> Result<Self, BuildError> {
        match codec {
            Codec::Lz4(level) => Ok(Self::Lz4(lz4::Lz4::new(level, cluster))),
            Codec::Zstd(level) => Ok(Self::Zstd(zstd::Zstd::new(level, cluster, block)?)),
        }
    }

    /// Prepares for other data. What is made of it does not depend on what was compressed before.
    pub(super) fn restart(&mut self) {
        match *self {
            Self::Lz4(_) => {}
            Self::Zstd(ref mut zstd) => zstd.restart(),
        }
    }

    /// Compresses a beginning of `input` to at most a cluster; `None` if it does not get shorter.
    pub(super) fn fill(&mut self, input: &[u8]) -> Result<Option<Filled<'_>>, BuildError> {
        match *self {
            Self::Lz4(ref mut lz4) => Ok(lz4.fill(input)),
            Self::Zstd(ref mut zstd) => zstd.fill(input),
        }
    }
}

/// The most bytes that a compressor takes, besides its output.
pub(super) fn memory(codec: Codec, cluster: u64) -> u64 {
    match codec {
        Codec::Lz4(_) => lz4::MEMORY,
        Codec::Zstd(level) => zstd::memory(level, cluster),
    }
}
