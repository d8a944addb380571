use std::{collections::HashSet, str::FromStr};

use rustix::io::Errno;
use serde::{Deserialize, Deserializer};
use verimount_verity::{FileDigest, ParseDigestError};

use super::{Decision, Facts, one_or_many::OneOrMany, text::from_text};

/// Digests, one of which a file must have, verified by the kernel.
#[derive(Debug)]
pub(super) struct Digests(HashSet<FileDigest>);

/// The result of looking for a file's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A digest that is in the list.
    Listed(FileDigest),
    /// Another digest.
    Unlisted(FileDigest),
    /// The kernel does not verify the file.
    Unverified,
}

impl Digests {
    /// Looks for the digest of the opened file.
    pub(super) fn find(&self, facts: &dyn Facts) -> Result<Found, Errno> {
        Ok(match facts.verity_digest()? {
            Some(digest) if self.0.contains(&digest) => Found::Listed(digest),
            Some(digest) => Found::Unlisted(digest),
            None => Found::Unverified,
        })
    }
}

impl Found {
    /// The resulting decision.
    pub(super) fn decision(self) -> Decision {
        match self {
            Self::Listed(_) => Decision::Passthrough,
            Self::Unlisted(_) | Self::Unverified => Decision::Deny,
        }
    }
}

impl<'de> Deserialize<'de> for Digests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digests: OneOrMany<Listed> = OneOrMany::deserialize(deserializer)?;
        Ok(Self(digests.iter().map(|listed| listed.0).collect()))
    }
}

/// A digest in the document.
struct Listed(FileDigest);

impl FromStr for Listed {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        text.parse().map(Self)
    }
}

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_text(deserializer)
    }
}
