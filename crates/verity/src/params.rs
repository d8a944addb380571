use thiserror::Error;

use crate::HashAlgorithm;

/// A tree parameter that fs-verity does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParamError {
    /// Another hash.
    #[error("the hash must be sha256 or sha512")]
    Algorithm,
    /// Another block size.
    #[error("the Merkle tree block size must be a power of two from 1K to 64K")]
    BlockSize,
    /// A longer salt.
    #[error("a salt has at most {} bytes", Salt::MAX)]
    Salt,
}

/// The size of a Merkle tree's blocks, of data and hashes alike: a power of two, 1 KiB to 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSize {
    log2: u8,
}

impl BlockSize {
    /// 4096 bytes, what the kernel's tools use unless told otherwise.
    pub const DEFAULT: Self = Self { log2: 12 };

    /// The block size of `bytes` bytes.
    ///
    /// # Errors
    /// [`ParamError::BlockSize`] unless it is a power of two from 1024 to 65536.
    pub fn new(bytes: u64) -> Result<Self, ParamError> {
        match bytes.is_power_of_two() {
            true => Self::from_log2(bytes.trailing_zeros() as u8),
            false => Err(ParamError::BlockSize),
        }
    }

    /// The block size of 2 to the power of `log2` bytes.
    ///
    /// # Errors
    /// [`ParamError::BlockSize`] unless `log2` is 10 to 16.
    pub const fn from_log2(log2: u8) -> Result<Self, ParamError> {
        match log2 {
            10..=16 => Ok(Self { log2 }),
            _ => Err(ParamError::BlockSize),
        }
    }

    /// The base-2 logarithm of the size in bytes.
    pub const fn log2(self) -> u8 {
        self.log2
    }

    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        1 << self.log2
    }
}

impl Default for BlockSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Up to 32 bytes that are hashed before every block. No salt: nothing is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Salt(Vec<u8>);

impl Salt {
    /// The most bytes a salt can have.
    pub const MAX: usize = 32;

    /// Takes a salt's bytes.
    ///
    /// # Errors
    /// [`ParamError::Salt`] if there are more than [`Self::MAX`].
    pub fn new(bytes: &[u8]) -> Result<Self, ParamError> {
        match bytes.len() <= Self::MAX {
            true => Ok(Self(bytes.to_vec())),
            false => Err(ParamError::Salt),
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// What is hashed before each block: the salt, padded with zeros to the hash's internal block.
    pub(crate) fn prefix(&self, algorithm: HashAlgorithm) -> Vec<u8> {
        let mut prefix = self.0.clone();
        if !prefix.is_empty() {
            prefix.resize(algorithm.internal_block_size(), 0);
        }
        prefix
    }
}

/// Everything a Merkle tree depends on besides the data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeParams {
    /// The hash.
    pub algorithm: HashAlgorithm,
    /// The size of data and hash blocks.
    pub block_size: BlockSize,
    /// What is hashed before each block.
    pub salt: Salt,
}
