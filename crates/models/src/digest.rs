//! Digests of contents.

use std::fmt;

use blake2::Blake2b512;
use ct_codecs::{Decoder, Hex};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, digest::DynDigest};

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Sha256,
    /// With digests of 64 bytes.
    Blake2b,
    /// SHA-1 of an object of git: of a header with the size, and the content.
    GitBlob,
}

impl Algorithm {
    /// The function that a signature calls so.
    pub(crate) fn signed(name: &str) -> Option<Self> {
        match name {
            "sha256" => Some(Self::Sha256),
            "blake2b" => Some(Self::Blake2b),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Blake2b => "blake2b",
            Self::GitBlob => "git",
        }
    }

    /// The length of its digests in bytes.
    fn len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Blake2b => 64,
            Self::GitBlob => 20,
        }
    }
}

/// A digest, with the function that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest {
    algorithm: Algorithm,
    bytes: Box<[u8]>,
}

impl Digest {
    /// The digest with these hexadecimal digits; `None` if they are not the right number of such digits.
    pub(crate) fn parse(algorithm: Algorithm, hex: &str) -> Option<Self> {
        let bytes = Hex::decode_to_vec(hex, None).ok()?;
        (bytes.len() == algorithm.len()).then(|| Self {
            algorithm,
            bytes: bytes.into(),
        })
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm.name())?;
        self.bytes
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A digest under way.
pub(crate) struct Hasher {
    algorithm: Algorithm,
    hash: Box<dyn DynDigest + Send>,
}

impl Hasher {
    /// For content of `size` bytes.
    pub(crate) fn new(algorithm: Algorithm, size: u64) -> Self {
        let hash: Box<dyn DynDigest + Send> = match algorithm {
            Algorithm::Sha256 => Box::new(Sha256::new()),
            Algorithm::Blake2b => Box::new(Blake2b512::new()),
            Algorithm::GitBlob => Box::new(Sha1::new_with_prefix(format!("blob {size}\0"))),
        };
        Self { algorithm, hash }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest {
            algorithm: self.algorithm,
            bytes: self.hash.finalize(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By `sha256sum`, `b2sum` and `git hash-object --stdin`.
    #[test]
    fn digests_are_those_of_other_programs() {
        for (algorithm, expected) in [
            (
                Algorithm::Sha256,
                "sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
            ),
            (
                Algorithm::Blake2b,
                "blake2b:f60ce482e5cc1229f39d71313171a8d9f4ca3a87d066bf4b205effb528192a75\
                 f14f3271e2c1a90e1de53f275b4d4793eef2f5e31ea90d2ce29d2e481c36435f",
            ),
            (
                Algorithm::GitBlob,
                "git:ce013625030ba8dba906f756967f9e9ca394464a",
            ),
        ] {
            let mut hasher = Hasher::new(algorithm, 6);
            hasher.update(b"hel");
            hasher.update(b"lo\n");
            let digest = hasher.finish();
            assert_eq!(digest.to_string(), expected);
            let (_, hex) = expected.split_once(':').unwrap();
            assert_eq!(Digest::parse(algorithm, hex), Some(digest));
        }
    }

    #[test]
    fn digests_have_the_right_number_of_digits() {
        let hex = "0123456789abcdef".repeat(4);
        assert!(Digest::parse(Algorithm::Sha256, &hex).is_some());
        for wrong in [
            "",
            "0",
            &hex[1..],
            &hex[2..],
            &hex.replace('a', "g"),
            &hex.replace('a', "é"),
        ] {
            assert_eq!(Digest::parse(Algorithm::Sha256, wrong), None, "{wrong}");
        }
    }
}
