use crate::{Algorithm, Error, Key, Usage, mac::Mac, superblock::Shape};

/// The algorithms and keys that verify a volume. They are not stored on it.
#[derive(Debug, Clone, Default)]
pub struct Integrity {
    /// The algorithm that computes tags.
    pub algorithm: Algorithm,
    /// The key of the algorithm, if it takes one.
    pub key: Option<Key>,
    /// The keyed algorithm and key of the MAC that protects the journal and, with the HMAC fix, the
    /// superblock.
    pub journal_mac: Option<(Algorithm, Key)>,
}

impl Integrity {
    /// The journal's MAC. It must be configured if and only if the volume has one.
    pub(crate) fn mac(&self, shape: &Shape) -> Result<Option<Mac>, Error> {
        match (&self.journal_mac, shape.journal_mac) {
            (Some((algorithm, key)), true) => Mac::new(*algorithm, key).map(Some),
            (None, false) => Ok(None),
            (Some(_), false) => Err(Usage::JournalMacUnused.into()),
            (None, true) => Err(Usage::JournalMacMissing.into()),
        }
    }
}
