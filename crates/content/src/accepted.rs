//! What is accepted of the content at one place.

use std::sync::Arc;

use verimount_source::Fetch;
use verimount_tree::StoredFile;
use verimount_verity::{
    FileDigest, Identity, PublicKey, Seal, Sealed, Trust as DigestTrust, VerifiedReader,
    VerifyOptions, dm_verity::HashArea,
};

use crate::{
    Error, Location, Pin, RootHash,
    far::NamedSuperblock,
    fault::Fault,
    place::Place,
    seal_search::{find_hash_area, find_seal, look_for_note, look_for_seal, not_sealed},
    trust::{Named, Pins, Trust},
};

/// What is accepted: what the user requires, and what the location names. All of it must hold.
#[derive(Debug, Clone)]
pub enum Accepted {
    /// What has a seal of fs-verity with this digest, and signed with this key. At least one is given.
    FsVerity {
        /// The digest.
        digest: Option<FileDigest>,
        /// The key.
        key: Option<PublicKey>,
    },
    /// What has a tree of dm-verity with this root hash.
    DmVerity {
        /// The root hash.
        root: RootHash,
        /// Its superblock, if the location names it.
        superblock: Option<NamedSuperblock>,
    },
    /// What matches its own seal.
    OwnSeal,
}

impl Accepted {
    /// What `trust` accepts of what is at `place`; `None` if nothing is to be verified.
    pub fn at(place: &Place, trust: &Trust) -> Result<Option<Self>, Error> {
        match trust {
            Trust::Unverified => Ok(None),
            Trust::Pinned(pins) => Self::pinned(place, pins.clone()).map(Some),
            Trust::Unpinned => match Self::pinned(place, Pins::default()) {
                Err(error) if matches!(error.fault(), Fault::NotNamed) => Ok(Some(Self::OwnSeal)),
                named => named.map(Some),
            },
        }
    }

    fn pinned(place: &Place, mut pins: Pins) -> Result<Self, Error> {
        let superblock = match place.named()? {
            Some(named) => add(named, &mut pins, place)?,
            None => None,
        };
        let at = place.location();
        match (pins.root_hash.take(), pins.is_empty()) {
            (Some(root), true) => Ok(Self::DmVerity { root, superblock }),
            (Some(_), false) => Err(Fault::PinsOfTwoSeals.at(at)),
            (None, true) => Err(Fault::NotNamed.at(at)),
            (None, false) => Ok(Self::FsVerity {
                digest: pins.digest,
                key: pins.key,
            }),
        }
    }

    /// Accepts only the content of this seal, which was accepted.
    pub(crate) fn only(self, seal: &Seal) -> Self {
        match (self, *seal.identity()) {
            (Self::FsVerity { key, .. }, Identity::FileDigest(digest)) => Self::FsVerity {
                digest: Some(digest),
                key,
            },
            (Self::OwnSeal, Identity::FileDigest(digest)) => Self::FsVerity {
                digest: Some(digest),
                key: None,
            },
            (Self::OwnSeal, Identity::RootHash(root)) => Self::DmVerity {
                root: root.into(),
                superblock: None,
            },
            (accepted, _) => accepted,
        }
    }

    /// What is signed with the key that is required, if one is, whichever content that is.
    pub(crate) fn signed(&self) -> Option<Self> {
        match self {
            Self::FsVerity { key: Some(key), .. } => Some(Self::FsVerity {
                digest: None,
                key: Some(key.clone()),
            }),
            _ => None,
        }
    }

    /// As a status reports it.
    pub(crate) fn pin(&self) -> Pin {
        match self {
            Self::FsVerity {
                digest: Some(_), ..
            } => Pin::Digest,
            Self::FsVerity { key, .. } => {
                let id = key.as_ref().and_then(PublicKey::id);
                let id = id.map(|id| id.to_string()).unwrap_or_default();
                Pin::Key { id }
            }
            Self::DmVerity { .. } => Pin::RootHash,
            Self::OwnSeal => Pin::Unpinned,
        }
    }

    /// The seal of what is at `place`, and the attributes of its file.
    pub(crate) fn found_at(&self, place: &Place) -> Result<(Seal, StoredFile), Error> {
        let (source, stored) = place.content()?;
        Ok((self.find(place, source)?, stored))
    }

    /// Finds the seal of `source`, the file at `place`, and checks it as far as that needs no tree.
    pub fn find(&self, place: &Place, source: Arc<dyn Fetch>) -> Result<Seal, Error> {
        match self {
            Self::FsVerity { digest, key } => {
                accept_file(place, &find_seal(place, source)?, *digest, key.as_ref())
            }
            Self::DmVerity { root, superblock } => {
                let area = find_hash_area(place, source)?;
                accept_device(place, &area, root, *superblock)
            }
            Self::OwnSeal => find_own_seal(place, source),
        }
    }

    /// The seal of content at `place` whose [head](Seal::head) is kept elsewhere, if it is accepted: its data and tree are empty.
    pub(crate) fn of_head(&self, place: &Place, head: &[u8]) -> Option<Seal> {
        let nothing = || Arc::new(Vec::new());
        let seal = match self {
            Self::FsVerity { digest, key } => {
                let sealed = Sealed::from_parts(head, nothing(), nothing()).ok()?;
                accept_file(place, &sealed, *digest, key.as_ref())
            }
            Self::DmVerity { root, superblock } => {
                let area = HashArea::from_parts(head, nothing(), nothing()).ok()?;
                accept_device(place, &area, root, *superblock)
            }
            Self::OwnSeal => return None,
        };
        seal.ok()
    }
}

fn accept_file(
    place: &Place,
    sealed: &Sealed,
    digest: Option<FileDigest>,
    key: Option<&PublicKey>,
) -> Result<Seal, Error> {
    let digest = digest.map_or(DigestTrust::Unpinned, DigestTrust::Digest);
    let key = key.map_or(DigestTrust::Unpinned, |key| DigestTrust::Key(key.clone()));
    let seal = digest.check(sealed).and_then(|()| sealed.accepted_by(&key));
    seal.map_err(|error| Fault::seal(place.location(), error))
}

fn accept_device(
    place: &Place,
    area: &HashArea,
    root: &RootHash,
    superblock: Option<NamedSuperblock>,
) -> Result<Seal, Error> {
    let at = place.location();
    let actual = area.geometry().data_blocks();
    if let Some(expected) = root.data_blocks.filter(|&expected| expected != actual) {
        return Err(Fault::DataBlocks { expected, actual }.at(at));
    }
    let seal = area.accepted_by(&root.hash);
    let seal = seal.map_err(|error| Fault::seal(at, error))?;
    let layer = || {
        let at = place.sidecar()?.unwrap_or(place.location().clone());
        Ok((at.clone(), place.file(&at)?))
    };
    match superblock {
        Some(named) if !named.is_of(&seal, layer)? => Err(Fault::WrongSuperblock.at(at)),
        _ => Ok(seal),
    }
}

/// A reader of a seal that was found at `location`.
pub fn reader(
    location: &Location,
    seal: Seal,
    options: VerifyOptions,
) -> Result<VerifiedReader, Error> {
    VerifiedReader::new(seal, options).map_err(|error| Fault::seal(location, error))
}

/// Adds what a location names to what is required. Returns what it says of a superblock.
fn add(named: &Named, pins: &mut Pins, place: &Place) -> Result<Option<NamedSuperblock>, Error> {
    let otherwise = |named: String, expected: String| {
        Fault::NamedOtherwise { named, expected }.at(place.location())
    };
    match named {
        Named::Digest(named) => {
            let expected = pins.digest.get_or_insert(*named);
            if expected == named {
                Ok(None)
            } else {
                Err(otherwise(named.to_string(), expected.to_string()))
            }
        }
        Named::RootHash(named, superblock) => {
            let expected = pins.root_hash.get_or_insert_with(|| named.clone());
            if expected.hash == named.hash {
                Ok(Some(*superblock))
            } else {
                Err(otherwise(named.text(), expected.text()))
            }
        }
    }
}

/// What content says of itself: its seal of fs-verity or, of a layer of containerd, that of dm-verity.
fn find_own_seal(place: &Place, source: Arc<dyn Fetch>) -> Result<Seal, Error> {
    if let Some(sealed) = look_for_seal(place, source.clone())? {
        return accept_file(place, &sealed, None, None);
    }
    match look_for_note(place)? {
        Some(note) => {
            let area = find_hash_area(place, source)?;
            accept_device(place, &area, note.root_hash(), None)
        }
        None => Err(not_sealed(place.location())),
    }
}

#[cfg(all(test, feature = "remote"))]
mod tests {
    use std::path::Path;

    use verimount_remote::registry::BlobDigest;

    use super::*;
    use crate::{ErrorKind, Options};

    fn digest(digit: &str) -> FileDigest {
        format!("sha256:{}", digit.repeat(64)).parse().unwrap()
    }

    fn root(digit: &str) -> RootHash {
        digit.repeat(64).parse().unwrap()
    }

    #[test]
    fn what_a_location_names_is_what_is_required() {
        let place = Place::new(Path::new("file").into(), &Options::default());
        let superblock = NamedSuperblock::Digest(BlobDigest::of(b""));
        let of_file = |digit| Pins {
            digest: Some(digest(digit)),
            ..Pins::default()
        };
        let of_device = |digit| Pins {
            root_hash: Some(root(digit).with_data_blocks(5)),
            ..Pins::default()
        };
        for (named, same, other) in [
            (Named::Digest(digest("1")), of_file("1"), of_file("2")),
            (
                Named::RootHash(root("1"), superblock),
                of_device("1"),
                of_device("2"),
            ),
        ] {
            for mut pins in [same, Pins::default()] {
                add(&named, &mut pins, &place).unwrap();
                assert!(!pins.is_empty());
            }
            let refused = add(&named, &mut other.clone(), &place).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::WrongContent);
        }
    }
}
