use std::str::FromStr;

use verimount_names::named;

use crate::ParamError;

named! {
    /// The hash of a Merkle tree. The numbers are those of the fs-verity descriptor, and the names those in digests such as
    /// `sha256:…`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub enum HashAlgorithm {
        /// SHA-256, number 1.
        #[default]
        Sha256 = "sha256",
        /// SHA-512, number 2.
        Sha512 = "sha512",
    }
}

impl HashAlgorithm {
    /// The number that stands for this hash in descriptors and signatures.
    pub const fn number(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    /// The hash with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|algorithm| algorithm.number() == number)
    }

    /// Length of a digest in bytes.
    pub const fn digest_size(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// Length in bytes of the hash's internal block, to which salts are padded.
    pub const fn internal_block_size(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

impl FromStr for HashAlgorithm {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        let mut all = Self::ALL.into_iter();
        let named = all.find(|algorithm| algorithm.name() == name);
        named.ok_or(ParamError::Algorithm)
    }
}
