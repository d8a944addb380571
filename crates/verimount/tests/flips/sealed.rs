use std::{collections::HashMap, fs, num::NonZero, sync::Arc, thread};

use verimount::{
    Content, Error, Identity, Location, OpenOptions, SealFormat, SealOptions, options::dm_verity,
    seal,
};
use verimount_erofs::{ErofsTree, Error as ErofsError};
use verimount_testkit::Flipped;
use verimount_verity::Checked;

use crate::{
    effect::Effect,
    seen::{Files, everything, is_refused},
};

/// Where the Merkle tree of an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seal {
    Appended,
    Beside,
    /// That of dm-verity, appended.
    DmVerity,
}

pub(crate) const SEALS: [Seal; 3] = [Seal::Appended, Seal::Beside, Seal::DmVerity];

/// A sealed image.
pub(crate) struct Sealed {
    seal: Seal,
    /// The size of the image in bytes.
    size: usize,
    /// The image, and what is appended to it.
    image: Vec<u8>,
    /// The file beside it; empty if there is none.
    sidecar: Vec<u8>,
    accepted: OpenOptions,
}

/// A sealed image in memory, where one byte can be changed.
struct Damaged<'a> {
    sealed: &'a Sealed,
    image: Arc<Flipped<Vec<u8>>>,
    sidecar: Arc<Flipped<Vec<u8>>>,
    /// Whether any file is refused, by the effect on the content.
    checked: HashMap<Effect, bool>,
}

impl Sealed {
    pub(crate) fn new(seal: Seal, image: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        fs::write(&path, image).unwrap();
        let format = match seal {
            Seal::DmVerity => SealFormat::DmVerity(dm_verity::Params::default()),
            Seal::Appended | Seal::Beside => SealFormat::default(),
        };
        let options = SealOptions {
            format,
            append: seal != Seal::Beside,
            ..SealOptions::default()
        };
        let made = self::seal(&path, &options).unwrap();
        let options = OpenOptions::new().hash_offset(made.hash_offset);
        Self {
            seal,
            size: image.len(),
            image: fs::read(&path).unwrap(),
            sidecar: fs::read(path.with_file_name("image.verity")).unwrap_or_default(),
            accepted: match made.identity {
                Identity::FileDigest(digest) => options.digest(digest),
                Identity::RootHash(hash) => options.root_hash(hash.into()),
            },
        }
    }

    /// The bytes in both files.
    pub(crate) fn len(&self) -> usize {
        self.image.len() + self.sidecar.len()
    }

    /// Changes the byte at each of these positions, in the image or behind its end in the sidecar.
    pub(crate) fn try_positions(&self, positions: &[usize]) {
        let tree = tree(&Damaged::new(self).open().unwrap()).unwrap();
        let expected = &everything(&tree).unwrap();
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            for part in positions.chunks(positions.len().div_ceil(threads).max(1)) {
                scope.spawn(move || {
                    let mut damaged = Damaged::new(self);
                    for &position in part {
                        let is_noticed = damaged.is_noticed(position, expected);
                        // Everything in the image is read. Behind it, there is padding.
                        assert!(
                            is_noticed || position >= self.size,
                            "{:?}: {position} was not noticed",
                            self.seal
                        );
                    }
                });
            }
        });
    }
}

impl<'a> Damaged<'a> {
    fn new(sealed: &'a Sealed) -> Self {
        Self {
            sealed,
            image: Arc::new(Flipped::new(sealed.image.clone())),
            sidecar: Arc::new(Flipped::new(sealed.sidecar.clone())),
            checked: HashMap::new(),
        }
    }

    fn open(&self) -> Result<Content, Error> {
        let sidecar = || Location::source("image.verity", self.sidecar.clone());
        let sidecar = (!self.sealed.sidecar.is_empty()).then(sidecar);
        let image = Location::source("image", self.image.clone());
        Content::open(image, &self.sealed.accepted.clone().sidecar(sidecar))
    }

    /// Whether the change of a byte has any effect. Only refusals are allowed.
    fn is_noticed(&mut self, position: usize, expected: &Files) -> bool {
        let end = self.sealed.image.len() as u64;
        match (position as u64).checked_sub(end) {
            None => self.image.flip(position as u64),
            Some(position) => self.sidecar.flip(position),
        }
        let is_noticed = match self.open() {
            Ok(opened) => self.is_refused(&opened, expected),
            Err(_) => true,
        };
        self.image.flip(Flipped::<Vec<u8>>::NOWHERE);
        self.sidecar.flip(Flipped::<Vec<u8>>::NOWHERE);
        is_noticed
    }

    /// Whether any read of what was opened is refused.
    fn is_refused(&mut self, opened: &Content, expected: &Files) -> bool {
        let content = &self.sealed.image[..self.sealed.size];
        let effect = Effect::on(&opened.file(), content);
        let check = || match tree(opened) {
            Ok(tree) => is_refused(&tree, expected),
            Err(ErofsError::NotErofs) => panic!("it is shown as something else"),
            Err(_) => true,
        };
        *self.checked.entry(effect).or_insert_with(check)
    }
}

/// The tree in an image.
fn tree(content: &Content) -> Result<ErofsTree, ErofsError> {
    ErofsTree::open(Checked::unverified(Arc::new(content.file())), Vec::new())
}
