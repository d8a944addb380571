//! The compression algorithms. Each fills a buffer of known length, and ignores what is compressed behind that.

mod deflate;
mod lz4;
mod lzma;
mod zstd;

use crate::error::Defect;

/// A compression algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    Lz4,
    MicroLzma,
    Deflate,
    Zstd,
}

impl Algorithm {
    /// The algorithm with this number, which must be among those with a bit in `available`.
    pub(crate) fn new(number: u8, available: u16) -> Result<Self, Defect> {
        let is_available = 1_u16
            .checked_shl(number.into())
            .is_some_and(|bit| available & bit != 0);
        match number {
            0 if is_available => Ok(Self::Lz4),
            1 if is_available => Ok(Self::MicroLzma),
            2 if is_available => Ok(Self::Deflate),
            3 if is_available => Ok(Self::Zstd),
            _ => Err(Defect::Algorithm(number)),
        }
    }

    /// Its number.
    #[cfg(feature = "write")]
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Lz4 => 0,
            Self::MicroLzma => 1,
            Self::Deflate => 2,
            Self::Zstd => 3,
        }
    }

    /// Fills `output` with what `input` is decompressed to; `None` if it is not what the algorithm makes, or ends too soon.
    pub(crate) fn decode(self, input: &[u8], output: &mut [u8]) -> Option<()> {
        match self {
            Self::Lz4 => lz4::decode(input, output),
            Self::Deflate => deflate::decode(input, output),
            Self::MicroLzma => lzma::decode(input, output),
            Self::Zstd => zstd::decode(input, output),
        }
    }
}
