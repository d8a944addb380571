use std::str::FromStr;

use thiserror::Error;

use crate::{block_size::BlockSize, decode::Algorithm};

/// How the contents of files are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// The algorithm and its level.
    pub codec: Codec,
    /// The most bytes that are stored together.
    pub cluster: ClusterSize,
}

/// An algorithm and its level. As text it is the algorithm's name; with a comma and a number, that level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    /// LZ4, which is decompressed fastest.
    Lz4(Lz4Level),
    /// Zstandard, which takes least space. Linux reads it since version 6.10.
    Zstd(ZstdLevel),
}

/// A level of LZ4: 1 to 12, as `lz4` has them, by default 1.
pub type Lz4Level = Level<12, 1>;

/// A level of Zstandard: 1 to 22, as `zstd` has them, by default 3.
pub type ZstdLevel = Level<22, 3>;

/// A level from 1 to `MOST`, by default `USUAL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level<const MOST: u8, const USUAL: u8>(u8);

/// The text is not an algorithm with a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "an algorithm is lz4 with a level from 1 to 12, or zstd with one from 1 to 22: lz4, lz4,9 or zstd,19"
)]
pub struct InvalidCodec;

/// The most bytes of compressed data that are stored together, and so decompressed together: a power of two up to
/// 1 MiB, by default 64 KiB. Larger ones take less space, and more time for reading a part. At least a block is taken, and
/// at most 1024. Linux reads those that are larger than a block since version 5.13.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterSize(u64);

/// The most blocks of a cluster: their number has 11 bits.
const MAX_BLOCKS: u64 = 1024;

/// The number is not the size of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0} is not a cluster size of EROFS: it must be a power of two from 512 bytes to 1 MiB")]
pub struct InvalidClusterSize(
    /// The number.
    pub u64,
);

impl<const MOST: u8, const USUAL: u8> Level<MOST, USUAL> {
    /// The level with this number, if there is one.
    pub fn new(level: u8) -> Option<Self> {
        (1..=MOST).contains(&level).then_some(Self(level))
    }

    /// Its number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl<const MOST: u8, const USUAL: u8> Default for Level<MOST, USUAL> {
    fn default() -> Self {
        Self(USUAL)
    }
}

impl Codec {
    /// The number that the format has for the algorithm.
    pub(in crate::writer) fn algorithm(self) -> Algorithm {
        match self {
            Self::Lz4(_) => Algorithm::Lz4,
            Self::Zstd(_) => Algorithm::Zstd,
        }
    }

    /// The number of the level.
    pub(in crate::writer) fn level(self) -> u8 {
        match self {
            Self::Lz4(level) => level.get(),
            Self::Zstd(level) => level.get(),
        }
    }
}

impl FromStr for Codec {
    type Err = InvalidCodec;

    fn from_str(text: &str) -> Result<Self, InvalidCodec> {
        let (name, level) = match text.split_once(',') {
            Some((name, level)) => (name, Some(level.parse().map_err(|_| InvalidCodec)?)),
            None => (text, None),
        };
        let codec = match name {
            "lz4" => level
                .map_or(Some(Level::default()), Level::new)
                .map(Self::Lz4),
            "zstd" => level
                .map_or(Some(Level::default()), Level::new)
                .map(Self::Zstd),
            _ => None,
        };
        codec.ok_or(InvalidCodec)
    }
}

impl ClusterSize {
    /// The most bytes of a cluster in an image with blocks of this size.
    pub(in crate::writer) fn bytes(self, block: BlockSize) -> u64 {
        self.0.clamp(block.bytes(), MAX_BLOCKS * block.bytes())
    }

    /// Whether a cluster may have several blocks of this size.
    pub(in crate::writer) fn is_big(self, block: BlockSize) -> bool {
        self.0 > block.bytes()
    }
}

impl Default for ClusterSize {
    fn default() -> Self {
        Self(64 << 10)
    }
}

impl TryFrom<u64> for ClusterSize {
    type Error = InvalidClusterSize;

    fn try_from(bytes: u64) -> Result<Self, InvalidClusterSize> {
        if bytes.is_power_of_two() && (512..=1 << 20).contains(&bytes) {
            Ok(Self(bytes))
        } else {
            Err(InvalidClusterSize(bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_have_names_and_levels() {
        for (text, codec) in [
            ("lz4", Codec::Lz4(Level(1))),
            ("lz4,12", Codec::Lz4(Level(12))),
            ("zstd", Codec::Zstd(Level(3))),
            ("zstd,22", Codec::Zstd(Level(22))),
        ] {
            assert_eq!(text.parse(), Ok(codec), "{text}");
        }
        for text in [
            "", "gzip", "lz4,", "lz4,0", "lz4,13", "zstd,23", "zstd,-1", "zstd,3,3", "LZ4", "lz4 ",
        ] {
            assert_eq!(text.parse::<Codec>(), Err(InvalidCodec), "{text}");
        }
    }

    #[test]
    fn clusters_have_a_block_at_least() {
        let block = |bytes: u64| BlockSize::try_from(bytes).unwrap();
        let cluster = |bytes: u64| ClusterSize::try_from(bytes).unwrap();
        assert_eq!(cluster(4096).bytes(block(16384)), 16384);
        assert_eq!(cluster(65536).bytes(block(4096)), 65536);
        assert!(cluster(8192).is_big(block(4096)));
        assert!(!cluster(4096).is_big(block(4096)));
        for bytes in [0, 256, 5000, 2 << 20] {
            assert_eq!(ClusterSize::try_from(bytes), Err(InvalidClusterSize(bytes)));
        }
    }
}
