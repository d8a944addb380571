use crate::{
    Algorithm, Error, Key, Superblock, Usage, mac::Mac, superblock::Shape, tagger::Tagger,
};

/// What the blocks of a volume are checked with, which the volume does not say itself.
#[derive(Debug, Clone, Default)]
pub struct Integrity {
    /// What tags are computed with.
    pub algorithm: Algorithm,
    /// Its key, for the algorithms that have one.
    pub key: Option<Key>,
    /// What the journal, and with the HMAC fix the superblock, are protected with: a keyed
    /// algorithm and its key.
    pub journal_mac: Option<(Algorithm, Key)>,
}

impl Integrity {
    pub(crate) fn tagger(&self, superblock: &Superblock) -> Result<Tagger, Error> {
        Tagger::new(
            self.algorithm,
            self.key.as_ref(),
            superblock.salt,
            superblock.shape.block_size,
            superblock.shape.tag_size,
        )
    }

    /// The journal's MAC, which must be there if the volume has one, and only then.
    pub(crate) fn mac(&self, shape: &Shape) -> Result<Option<Mac>, Error> {
        match (&self.journal_mac, shape.journal_mac) {
            (Some((algorithm, key)), true) => Mac::new(*algorithm, key).map(Some),
            (None, false) => Ok(None),
            (Some(_), false) => Err(Usage::JournalMacUnused.into()),
            (None, true) => Err(Usage::JournalMacMissing.into()),
        }
    }
}
