use std::str::FromStr;

use thiserror::Error;
use verimount_serve::Pin;
use verimount_verity::{Digest, FileDigest, PublicKey, parse_hex};

/// Which content is accepted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Trust {
    /// What has this digest of fs-verity.
    Digest(FileDigest),
    /// What is signed with this key.
    Key(PublicKey),
    /// What has this root hash of dm-verity.
    RootHash(RootHash),
    /// What the location itself names by a digest: for an image in a registry that is given by the digest of
    /// its manifest, the content of which the manifest has the digest.
    Named,
    /// What has the digest that its own seal gives: detects damage, but not forgery.
    Unpinned,
    /// Anything. Nothing is verified; a seal at the end of the file is read as data.
    Unverified,
}

/// The root hash of a dm-verity tree, of any algorithm. Only the superblock names the algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootHash {
    pub(crate) hash: Vec<u8>,
    pub(crate) data_blocks: Option<u64>,
}

/// The text is not a root hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a root hash consists of hexadecimal digits")]
pub struct ParseRootHashError;

impl RootHash {
    /// The same, also requiring this number of data blocks, which the root hash does not cover.
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
        let hash = parse_hex(text).filter(|hash| !hash.is_empty());
        let hash = hash.ok_or(ParseRootHashError)?;
        Ok(Self {
            hash,
            data_blocks: None,
        })
    }
}

impl Trust {
    /// Whether both accept the same digest or root hash.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Digest(one), Self::Digest(other)) => one == other,
            (Self::RootHash(one), Self::RootHash(other)) => one.hash == other.hash,
            _ => false,
        }
    }

    /// The digest or root hash that is accepted, as text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Digest(digest) => digest.to_string(),
            Self::RootHash(root) => {
                let digits = root.hash.iter().map(|byte| format!("{byte:02x}"));
                digits.collect()
            }
            _ => String::new(),
        }
    }

    /// As a status reports it.
    pub fn pin(&self) -> Pin {
        match self {
            Self::Digest(_) | Self::Named => Pin::Digest,
            Self::Key(key) => Pin::Key {
                id: key.id().map(|id| id.to_string()).unwrap_or_default(),
            },
            Self::RootHash(_) => Pin::RootHash,
            Self::Unpinned => Pin::Unpinned,
            Self::Unverified => Pin::Unverified,
        }
    }
}
