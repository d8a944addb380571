use std::str::FromStr;

use thiserror::Error;
use verimount_verity::{Digest, FileDigest, HashAlgorithm, PublicKey, parse_hex};

use crate::far::NamedSuperblock;

/// Which content is accepted.
#[derive(Debug, Clone)]
pub enum Trust {
    /// What satisfies all of these, and is what its location names by a digest, if it does: the manifest of an image in
    /// a registry, which is named by its own digest, has that of the content.
    Pinned(Pins),
    /// What has the digest that its own seal gives: detects damage, but not forgery. What a location names by a
    /// digest is pinned nevertheless.
    Unpinned,
    /// Anything. Nothing is verified; a seal at the end of the file is read as data.
    Unverified,
}

/// What content must satisfy, all of it. Without any, its location must name it by a digest.
#[derive(Debug, Clone, Default)]
pub struct Pins {
    /// Its digest of fs-verity.
    pub digest: Option<FileDigest>,
    /// The key that its seal of fs-verity is signed with.
    pub key: Option<PublicKey>,
    /// Its root hash of dm-verity.
    pub root_hash: Option<RootHash>,
}

impl Pins {
    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.digest.is_none() && self.key.is_none() && self.root_hash.is_none()
    }
}

/// The content that a location names by a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    Digest(FileDigest),
    RootHash(RootHash, NamedSuperblock),
}

/// The root hash of a dm-verity tree, of any algorithm. Only the superblock names the algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootHash {
    pub(crate) hash: Vec<u8>,
    pub(crate) data_blocks: Option<u64>,
}

/// The text is not a root hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a root hash has 64 hexadecimal digits, or 128 with sha512")]
pub struct ParseRootHashError;

impl RootHash {
    /// Its hexadecimal digits.
    pub(crate) fn text(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Also requires this number of data blocks, which the root hash does not cover.
    #[must_use]
    pub fn with_data_blocks(self, data_blocks: u64) -> Self {
        Self {
            data_blocks: Some(data_blocks),
            ..self
        }
    }
}

impl From<Digest> for RootHash {
    fn from(root: Digest) -> Self {
        Self {
            hash: root.as_bytes().to_vec(),
            data_blocks: None,
        }
    }
}

impl FromStr for RootHash {
    type Err = ParseRootHashError;

    fn from_str(text: &str) -> Result<Self, ParseRootHashError> {
        let of_some_algorithm = |hash: &Vec<u8>| {
            let mut algorithms = HashAlgorithm::ALL.iter();
            algorithms.any(|algorithm| algorithm.digest_size() == hash.len())
        };
        let hash = parse_hex(text).filter(of_some_algorithm);
        let hash = hash.ok_or(ParseRootHashError)?;
        Ok(Self {
            hash,
            data_blocks: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_hash_has_the_length_of_a_digest() {
        for (bytes, is_one) in [(0, false), (31, false), (32, true), (33, false), (64, true)] {
            let root = "0a".repeat(bytes).parse::<RootHash>();
            assert_eq!(root.is_ok(), is_one, "{bytes}");
        }
        let root: RootHash = "0a".repeat(32).parse().unwrap();
        assert_eq!(root.with_data_blocks(5).data_blocks, Some(5));
    }
}
