use thiserror::Error;

use crate::{BlockHasher, HashAlgorithm, dm_verity};

/// A tree parameter that the format does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParamError {
    /// Another hash.
    #[error("the hash must be sha256 or sha512")]
    Algorithm,
    /// Another block size.
    #[error("a block size must be a power of two from {least} to 65536")]
    BlockSize {
        /// The smallest allowed, in bytes.
        least: usize,
    },
    /// Too long a salt.
    #[error("a salt has at most {most} bytes")]
    Salt {
        /// The most bytes allowed.
        most: usize,
    },
}

/// A block size: a power of two from 2 to the power of `LEAST_LOG2` bytes to 64 KiB, the largest
/// page size of any processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizeFrom<const LEAST_LOG2: u8> {
    log2: u8,
}

/// The size of data and hash blocks in fs-verity: 1 KiB to 64 KiB.
pub type BlockSize = BlockSizeFrom<10>;

impl<const LEAST_LOG2: u8> BlockSizeFrom<LEAST_LOG2> {
    /// 4096 bytes, the default of the kernel's tools.
    pub const DEFAULT: Self = Self { log2: 12 };

    const MOST_LOG2: u8 = 16;

    /// The block size of `bytes` bytes.
    ///
    /// # Errors
    /// [`ParamError::BlockSize`] unless it is a power of two from the least to 65536.
    pub fn new(bytes: u64) -> Result<Self, ParamError> {
        if bytes.is_power_of_two() {
            Self::from_log2(bytes.trailing_zeros() as u8)
        } else {
            Err(Self::ERROR)
        }
    }

    /// The block size of 2 to the power of `log2` bytes.
    ///
    /// # Errors
    /// [`ParamError::BlockSize`] unless `log2` is at least `LEAST_LOG2` and at most 16.
    pub const fn from_log2(log2: u8) -> Result<Self, ParamError> {
        if LEAST_LOG2 <= log2 && log2 <= Self::MOST_LOG2 {
            Ok(Self { log2 })
        } else {
            Err(Self::ERROR)
        }
    }

    const ERROR: ParamError = ParamError::BlockSize {
        least: 1 << LEAST_LOG2,
    };

    /// The base-2 logarithm of the size in bytes.
    pub const fn log2(self) -> u8 {
        self.log2
    }

    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        1 << self.log2
    }
}

impl From<BlockSize> for dm_verity::BlockSize {
    fn from(size: BlockSize) -> Self {
        Self { log2: size.log2 }
    }
}

impl<const LEAST_LOG2: u8> Default for BlockSizeFrom<LEAST_LOG2> {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Up to `MOST` bytes that are hashed before every block. Empty by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SaltUpTo<const MOST: usize>(Vec<u8>);

/// A salt of fs-verity: up to 32 bytes.
pub type Salt = SaltUpTo<32>;

impl<const MOST: usize> SaltUpTo<MOST> {
    /// The most bytes a salt can have.
    pub const MAX: usize = MOST;

    /// A salt from its bytes.
    ///
    /// # Errors
    /// [`ParamError::Salt`] if there are more than [`Self::MAX`].
    pub fn new(bytes: &[u8]) -> Result<Self, ParamError> {
        if bytes.len() <= MOST {
            Ok(Self(bytes.to_vec()))
        } else {
            Err(ParamError::Salt { most: MOST })
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Salt> for dm_verity::Salt {
    fn from(salt: Salt) -> Self {
        Self(salt.0)
    }
}

/// The parameters of an fs-verity Merkle tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeParams {
    /// The hash.
    pub algorithm: HashAlgorithm,
    /// The size of data and hash blocks.
    pub block_size: BlockSize,
    /// The bytes that are hashed before each block.
    pub salt: Salt,
}

impl TreeParams {
    /// The salt is padded with zeros to the hash's internal block.
    pub(crate) fn hashing(&self) -> Hashing {
        let mut prefix = self.salt.as_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.resize(self.algorithm.internal_block_size(), 0);
        }
        Hashing {
            algorithm: self.algorithm,
            data_block_log2: self.block_size.log2(),
            hash_block_log2: self.block_size.log2(),
            prefix,
        }
    }
}

/// How blocks are hashed, in either format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hashing {
    pub(crate) algorithm: HashAlgorithm,
    /// The base-2 logarithm of the size of data blocks in bytes, 9 to 16.
    pub(crate) data_block_log2: u8,
    /// The base-2 logarithm of the size of hash blocks in bytes, 9 to 16.
    pub(crate) hash_block_log2: u8,
    /// The bytes that are hashed before each block of the data and of the tree.
    pub(crate) prefix: Vec<u8>,
}

impl Hashing {
    pub(crate) fn data_hasher(&self) -> BlockHasher {
        BlockHasher::new(self, self.data_block_log2)
    }

    pub(crate) fn tree_hasher(&self) -> BlockHasher {
        BlockHasher::new(self, self.hash_block_log2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Comparisons with `fsverity` show that the others are all the tool's; these are refused by name.
    #[test]
    fn other_block_sizes_are_refused() {
        for bytes in [0, 512, 1000, 3072, 131_072] {
            assert!(BlockSize::new(bytes).is_err(), "{bytes}");
        }
    }

    /// As the kernel pads them (`fsverity_prepare_hash_state`).
    #[test]
    fn a_salt_fills_a_block_of_the_hash() {
        for (algorithm, len) in [(HashAlgorithm::Sha256, 64), (HashAlgorithm::Sha512, 128)] {
            let params = TreeParams {
                algorithm,
                salt: Salt::new(&[1; 5]).unwrap(),
                ..TreeParams::default()
            };
            assert_eq!(params.hashing().prefix.len(), len);
        }
    }

    #[test]
    fn salts_are_as_long_as_the_formats_allow() {
        assert!(Salt::new(&[1; 32]).is_ok() && Salt::new(&[1; 33]).is_err());
        let longest = dm_verity::Salt::MAX;
        assert_eq!(longest, 256);
        assert!(dm_verity::Salt::new(&vec![1; longest]).is_ok());
        assert!(dm_verity::Salt::new(&vec![1; longest + 1]).is_err());
    }
}
