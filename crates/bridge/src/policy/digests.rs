use std::{collections::HashSet, str::FromStr};

use serde::{Deserialize, Deserializer};
use verimount_verity::{FileDigest, ParseDigestError};

use super::{one_or_many::OneOrMany, text::from_text};

/// Digests, one of which a file must have, verified by the kernel.
#[derive(Debug)]
pub(super) struct Digests(HashSet<FileDigest>);

impl Digests {
    pub(super) fn contain(&self, digest: &FileDigest) -> bool {
        self.0.contains(digest)
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
