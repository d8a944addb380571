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
    use crate::{
        ErrorKind, Options,
        sealed_files::{write_hash_area, write_sealed},
    };

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

    const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

    /// Writes `file` with its seal, and the same with one of dm-verity beside it. Returns the places, the digest and the root hash.
    fn sealed(folder: &Path) -> ([Place; 2], FileDigest, RootHash) {
        let data = vec![7; 200 * 4096];
        let [file, device, beside] =
            ["file", "device", "device.verity"].map(|name| folder.join(name));
        let digest = write_sealed(&file, &data);
        std::fs::write(&device, &data).unwrap();
        let root = write_hash_area(&beside, &data);
        let places = [file, device].map(|path| Place::new(path.into(), &Options::default()));
        (places, digest, root)
    }

    #[test]
    fn what_was_found_is_all_that_is_accepted_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let ([file, device], own, root) = sealed(folder.path());
        let (of_file, _) = Accepted::OwnSeal.found_at(&file).unwrap();
        let signed = Accepted::FsVerity {
            digest: None,
            key: Some(PublicKey::parse(KEY).unwrap()),
        };
        for accepted in [Accepted::OwnSeal, signed] {
            let is_signed = !matches!(accepted, Accepted::OwnSeal);
            assert!(matches!(
                accepted.only(&of_file),
                Accepted::FsVerity { digest: Some(digest), key }
                    if digest == own && key.is_some() == is_signed
            ));
        }
        let pinned = Accepted::DmVerity {
            root: root.clone(),
            superblock: None,
        };
        let (of_device, _) = pinned.found_at(&device).unwrap();
        assert!(matches!(
            Accepted::OwnSeal.only(&of_device),
            Accepted::DmVerity { root: only, .. } if only == root
        ));
    }

    #[test]
    fn the_number_of_blocks_is_that_which_is_pinned() {
        let folder = tempfile::tempdir().unwrap();
        let ([_, device], _, root) = sealed(folder.path());
        for blocks in [199, 200, 201] {
            let accepted = Accepted::DmVerity {
                root: root.clone().with_data_blocks(blocks),
                superblock: None,
            };
            let kind = accepted.found_at(&device).err().map(|error| error.kind());
            let expected = Some(ErrorKind::WrongContent).filter(|_| blocks != 200);
            assert_eq!(kind, expected, "{blocks}");
        }
    }

    #[test]
    fn a_head_that_is_kept_elsewhere_is_looked_at_as_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let ([file, device], own, root) = sealed(folder.path());
        let (seal, _) = Accepted::OwnSeal.found_at(&file).unwrap();
        let key = || PublicKey::parse(KEY).unwrap();
        for (expected, key, is_right) in [
            (own, None, true),
            (digest("1"), None, false),
            (own, Some(key()), false),
        ] {
            let accepted = Accepted::FsVerity {
                digest: Some(expected),
                key,
            };
            assert_eq!(accepted.of_head(&file, seal.head()).is_some(), is_right);
        }
        let accepted = |superblock| Accepted::DmVerity {
            root: root.clone(),
            superblock,
        };
        let (seal, _) = accepted(None).found_at(&device).unwrap();
        for (named, is_right) in [(seal.head(), true), (b"another", false)] {
            let named = NamedSuperblock::Digest(BlobDigest::of(named));
            let found = accepted(Some(named)).of_head(&device, seal.head());
            assert_eq!(found.is_some(), is_right);
        }
    }

    /// What cannot be compared is not right.
    #[test]
    fn a_superblock_in_a_layer_that_cannot_be_read_is_not_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let ([_, device], _, root) = sealed(folder.path());
        let area = find_hash_area(&device, device.content().unwrap().0).unwrap();
        let missing = Place::new(folder.path().join("missing").into(), &Options::default());
        let named = NamedSuperblock::InLayer(BlobDigest::of(b""));
        assert!(accept_device(&missing, &area, &root, Some(named)).is_err());
    }
}
