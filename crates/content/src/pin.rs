/// With what the content is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "json", serde(tag = "by", rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Pin {
    /// With the required file digest.
    Digest,
    /// With the required root hash.
    RootHash,
    /// With a file digest that is signed with this key.
    Key {
        /// The key id, in hexadecimal digits.
        id: String,
    },
    /// With the digest that the file itself states.
    Unpinned,
    /// With nothing.
    Unverified,
    /// A kind of pin of a newer program.
    #[cfg_attr(feature = "json", serde(other))]
    Unknown,
}

impl Pin {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Digest => "digest",
            Self::RootHash => "root-hash",
            Self::Key { .. } => "key",
            Self::Unpinned => "unpinned",
            Self::Unverified => "unverified",
            Self::Unknown => "unknown",
        }
    }
}
