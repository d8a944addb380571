//! Pins as values, to choose from and compare.

use verimount::{Content, Error, FileDigest, Location, OpenOptions, PublicKey, RootHash};

#[derive(Debug, Clone)]
pub(crate) enum Trust {
    Pinned(Pins),
    Unpinned,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Pins {
    pub(crate) digest: Option<FileDigest>,
    pub(crate) key: Option<PublicKey>,
    pub(crate) root_hash: Option<RootHash>,
}

impl Trust {
    /// Only what the location names by a digest.
    pub(crate) fn named() -> Self {
        Self::Pinned(Pins::default())
    }
}

impl From<FileDigest> for Trust {
    fn from(digest: FileDigest) -> Self {
        Self::Pinned(Pins {
            digest: Some(digest),
            ..Pins::default()
        })
    }
}

impl From<PublicKey> for Trust {
    fn from(key: PublicKey) -> Self {
        Self::Pinned(Pins {
            key: Some(key),
            ..Pins::default()
        })
    }
}

impl From<RootHash> for Trust {
    fn from(root_hash: RootHash) -> Self {
        Self::Pinned(Pins {
            root_hash: Some(root_hash),
            ..Pins::default()
        })
    }
}

/// Opens content with these pins besides the options.
pub(crate) fn open(
    location: impl Into<Location>,
    trust: &Trust,
    options: &OpenOptions,
) -> Result<Content, Error> {
    let options = options.clone();
    let options = match trust.clone() {
        Trust::Unpinned => options.unpinned(),
        Trust::Pinned(Pins {
            digest,
            key,
            root_hash,
        }) => {
            let options = digest.into_iter().fold(options, OpenOptions::digest);
            let options = key.into_iter().fold(options, OpenOptions::key);
            root_hash.into_iter().fold(options, OpenOptions::root_hash)
        }
    };
    Content::open(location.into(), &options)
}
