//! What is accepted of the content at one place.

use std::sync::Arc;

use verimount_serve::Pin;
use verimount_source::ReadAt;
use verimount_verity::{
    FileDigest, PublicKey, Trust as DigestTrust, VerifiedReader, VerifyOptions,
};

use crate::{
    Error, Location, RootHash,
    far::NamedSuperblock,
    fault::Fault,
    opened_seal::OpenedSeal,
    place::Place,
    seal_search::{find_hash_area, find_seal, look_for_note, look_for_seal, not_sealed},
    trust::{Pins, Trust},
};

/// The content that a location names by a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    Digest(FileDigest),
    RootHash(RootHash, NamedSuperblock),
}

/// What is accepted: what the user requires, and what the location names. All of it must hold.
#[derive(Debug, Clone)]
pub(crate) enum Accepted {
    /// What has a seal of fs-verity with this digest, and signed with this key. At least one is given.
    FsVerity {
        digest: Option<FileDigest>,
        key: Option<PublicKey>,
    },
    /// What has a tree of dm-verity with this root hash.
    DmVerity {
        root: RootHash,
        superblock: Option<NamedSuperblock>,
    },
    /// What matches its own seal.
    OwnSeal,
}

impl Accepted {
    /// What `trust` accepts of what is at `place`; `None` if nothing is to be verified.
    pub(crate) fn at(place: &Place, trust: &Trust) -> Result<Option<Self>, Error> {
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

    /// The same, but only the content of this seal, which was accepted.
    pub(crate) fn only(self, seal: &OpenedSeal) -> Self {
        match (self, seal) {
            (Self::FsVerity { key, .. }, OpenedSeal::FsVerity(sealed)) => Self::FsVerity {
                digest: Some(sealed.file_digest()),
                key,
            },
            (Self::OwnSeal, OpenedSeal::FsVerity(sealed)) => Self::FsVerity {
                digest: Some(sealed.file_digest()),
                key: None,
            },
            (Self::OwnSeal, OpenedSeal::DmVerity { root, .. }) => Self::DmVerity {
                root: root.clone(),
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

    /// Finds the seal of `source`, the file at `place`, and checks it as far as that needs no tree.
    pub(crate) fn find(&self, place: &Place, source: Arc<dyn ReadAt>) -> Result<OpenedSeal, Error> {
        let seal = match self {
            Self::FsVerity { .. } => OpenedSeal::FsVerity(find_seal(place, source)?),
            Self::DmVerity { root, .. } => OpenedSeal::DmVerity {
                area: find_hash_area(place, source)?,
                root: root.clone(),
            },
            Self::OwnSeal => find_own_seal(place, source)?,
        };
        self.check(place, &seal)?;
        self.check_superblock(place, &seal)?;
        Ok(seal)
    }

    /// Checks what a seal says of itself.
    pub(crate) fn check(&self, place: &Place, seal: &OpenedSeal) -> Result<(), Error> {
        let at = place.location();
        match (self, seal) {
            (Self::FsVerity { digest, key }, OpenedSeal::FsVerity(sealed)) => {
                let digest = digest.map(DigestTrust::Digest);
                let all = digest.into_iter().chain(key.clone().map(DigestTrust::Key));
                all.into_iter()
                    .try_for_each(|trust| trust.check(sealed))
                    .map_err(|error| Error::seal(at, error))
            }
            (Self::DmVerity { root, .. }, OpenedSeal::DmVerity { area, .. }) => {
                let actual = area.geometry().data_blocks();
                match root.data_blocks.filter(|&expected| expected != actual) {
                    Some(expected) => Err(Fault::DataBlocks { expected, actual }.at(at)),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Compares the superblock of a named image with what its name pins.
    fn check_superblock(&self, place: &Place, seal: &OpenedSeal) -> Result<(), Error> {
        let Self::DmVerity {
            superblock: Some(named),
            ..
        } = self
        else {
            return Ok(());
        };
        if named.is_of(place, seal)? {
            Ok(())
        } else {
            Err(Fault::WrongSuperblock.at(place.location()))
        }
    }

    /// A reader of what was found at `location` and checked.
    pub(crate) fn reader(
        location: &Location,
        seal: OpenedSeal,
        options: VerifyOptions,
    ) -> Result<VerifiedReader, Error> {
        let reader = seal.reader(options);
        reader.map_err(|error| Error::seal(location, error))
    }
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
fn find_own_seal(place: &Place, source: Arc<dyn ReadAt>) -> Result<OpenedSeal, Error> {
    if let Some(sealed) = look_for_seal(place, source.clone())? {
        return Ok(OpenedSeal::FsVerity(sealed));
    }
    match look_for_note(place)? {
        Some(note) => Ok(OpenedSeal::DmVerity {
            root: note.root_hash().clone(),
            area: find_hash_area(place, source)?,
        }),
        None => Err(not_sealed(place.location(), source)),
    }
}
