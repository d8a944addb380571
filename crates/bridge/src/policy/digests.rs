use std::collections::HashSet;

use serde::{Deserialize, Deserializer};
use verimount_verity::FileDigest;

use super::{one_or_many::OneOrMany, text::Text};

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
        let digests: OneOrMany<Text<FileDigest>> = OneOrMany::deserialize(deserializer)?;
        Ok(Self(digests.iter().map(|listed| listed.0).collect()))
    }
}
