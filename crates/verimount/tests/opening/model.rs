//! Random places, honest and hostile, random pins, several caches: whatever is opened is what the pins cover, and what is
//! honest is always opened.

use std::{env, fmt};

use tempfile::TempDir;
use verimount::{
    Cache, Content, FileDigest, Identity, ImageDevice, Location, OpenOptions, ReadAt, ReadError,
    RootHash,
};
use verimount_testkit::{Random, is_exhaustive, noise};

use crate::{
    in_registry::Registry,
    stored::{Keys, Known, Layout, Stored},
    trust::{Pins, Trust, open},
};

/// How many contents are opened one after the other.
const SEQUENCES: usize = 100_000;

/// One of so many is in a registry, where opening takes longer.
const IN_REGISTRY: usize = 20;

/// How many contents are opened one after the other in everyday runs.
const SAMPLE: usize = 4_000;

/// What a place does with what is stored there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Honest,
    FlipsData,
    FlipsSeal,
    /// Has the file of another content, or its seal, or both.
    Replaces,
    /// Has the same content in another layout.
    StoresOtherwise,
    Truncates,
    Extends,
    /// Has another superblock of dm-verity.
    ChangesSuperblock,
}

const PLACES: [Place; 10] = [
    Place::Honest,
    Place::Honest,
    Place::Honest,
    Place::FlipsData,
    Place::FlipsSeal,
    Place::Replaces,
    Place::StoresOtherwise,
    Place::Truncates,
    Place::Extends,
    Place::ChangesSuperblock,
];

struct Model {
    random: Random,
    keys: Keys,
    stored: Vec<Stored>,
    registry: Registry,
    /// Of each, its name in the registry, if it can be stored there.
    names: Vec<Option<Location>>,
    caches: Vec<(TempDir, Cache)>,
    opened: usize,
    refused: usize,
}

/// A further device of an image.
struct Device {
    found: Stored,
    place: Place,
    /// Its own pin.
    digest: Option<FileDigest>,
    /// What counts for it, with that of the image; `None` if nothing does.
    trust: Option<Trust>,
}

impl Device {
    fn image_device(&self) -> ImageDevice {
        ImageDevice {
            location: Location::slow_source("device", self.found.file.clone()),
            digest: self.digest,
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} device with {:?}", self.place, self.trust)
    }
}

impl Model {
    fn new(seed: u64) -> Self {
        let keys = Keys::new();
        // Two of each size, so that one can stand for the other; with one block, and with two levels of the tree.
        let contents = [4096, 4096, 150 * 4096, 150 * 4096, 300 * 4096];
        let contents = (1..).zip(contents).map(|(seed, size)| noise(size, seed));
        let stored = contents.enumerate().flat_map(|(number, data)| {
            let keys = &keys;
            Layout::ALL.map(move |layout| {
                let signer = match layout {
                    Layout::Appended => Some(number % 2),
                    Layout::Sidecar => Some(0).filter(|_| number % 2 == 0),
                    _ => None,
                };
                let signer = signer.map(|signer| (keys, signer));
                Stored::new(data.clone(), layout, signer)
            })
        });
        let stored: Vec<Stored> = stored.collect();
        let registry = Registry::new();
        let names = stored.iter().enumerate().map(|(number, stored)| {
            // Nothing says what the root hash of a single block is, which has no tree.
            let can_be_pushed = match stored.layout {
                Layout::Appended | Layout::Sidecar => true,
                Layout::DmVerity => stored.data.len() > 4096,
                Layout::DmVerityAppended => false,
            };
            can_be_pushed.then(|| registry.push(stored, &number.to_string()))
        });
        let names = names.collect();
        let cache = || {
            let folder = tempfile::tempdir().unwrap();
            let cache = Cache::open(folder.path().join("cache"), Some(1 << 30)).unwrap();
            (folder, cache)
        };
        Self {
            random: Random::new(seed),
            caches: vec![cache(), cache()],
            stored,
            registry,
            names,
            keys,
            opened: 0,
            refused: 0,
        }
    }

    fn step(&mut self) {
        let honest = self.random.below(self.stored.len());
        let place = self.random.choose(&PLACES);
        let found = self.found(honest, place);
        let trust = self.trust(honest);
        let options = self.options(&found);
        let devices = match self.random.below(4) {
            0 => 1 + self.random.below(2),
            _ => 0,
        };
        let devices: Vec<_> = (0..devices).map(|_| self.device(&trust)).collect();
        let each = devices.iter().map(Device::image_device);
        let options = each.fold(options, OpenOptions::device);
        let location = Location::slow_source("content", found.file.clone());
        let is_right = place == Place::Honest && self.satisfies(&trust, &found);
        let what = format!("{place:?} {:?} with {trust:?}, {devices:?}", found.layout);
        match open(location, &trust, &options) {
            Ok(opened) => {
                self.opened += 1;
                self.check(&opened, &trust, &found, place, &what);
                assert_eq!(opened.devices().len(), devices.len(), "{what}");
                for (opened, device) in opened.devices().iter().zip(&devices) {
                    let trust = device.trust.as_ref();
                    let trust = trust.unwrap_or_else(|| panic!("nothing pins a device: {what}"));
                    self.check(opened, trust, &device.found, device.place, &what);
                }
            }
            Err(error) => {
                self.refused += 1;
                let are_right = devices.iter().all(|device| self.is_right(device));
                assert!(!is_right || !are_right, "{what}: {error}");
            }
        }
        if self.random.below(500) == 0 {
            self.random_cache().clear().unwrap();
        }
    }

    /// What is read of opened content is what the pins cover; all of it, if it is honest.
    fn check(&mut self, opened: &Content, trust: &Trust, found: &Stored, place: Place, what: &str) {
        let identity = opened.identity().unwrap();
        let content = opened.file();
        let read = self.read(&content);
        let expected = self.expected(trust, &identity, found, place);
        if let Some(size) = self.pinned_size(trust) {
            assert_eq!(content.size(), size, "{what}");
        }
        let is_right = place == Place::Honest && self.satisfies(trust, found);
        for (start, bytes) in &read {
            match (bytes, &expected) {
                (Ok(bytes), Some(expected)) => {
                    assert_eq!(content.size(), expected.len() as u64, "{what}");
                    assert!(*bytes == expected[*start..start + bytes.len()], "{what}");
                }
                (Ok(_), None) => {}
                (Err(error), _) => assert!(!is_right, "{what}: {error}"),
            }
        }
    }

    /// A further device of an image that is opened with this trust: a file with its seal at its end.
    fn device(&mut self, image: &Trust) -> Device {
        let is_appended = |number: &usize| self.stored[*number].layout == Layout::Appended;
        let appended: Vec<_> = (0..self.stored.len()).filter(is_appended).collect();
        let number = self.random.choose(&appended);
        let place = self.random.choose(&PLACES);
        let digest = match self.stored[number].known {
            Known::Digest(digest) if self.random.below(4) > 0 => Some(digest),
            _ => None,
        };
        let trust = match (digest, image) {
            (Some(digest), _) => Some(digest.into()),
            (None, Trust::Pinned(pins)) => pins.key.clone().map(Trust::from),
            (None, image) => Some(image.clone()),
        };
        Device {
            found: self.found(number, place),
            place,
            digest,
            trust,
        }
    }

    /// Whether a device should be opened.
    fn is_right(&self, device: &Device) -> bool {
        let trust = device.trust.as_ref();
        let is_covered = trust.is_some_and(|trust| self.satisfies(trust, &device.found));
        device.place == Place::Honest && is_covered
    }

    /// Opens content by its name in the registry, which pins all of it.
    fn step_in_registry(&mut self) {
        let number = self.random.below(self.stored.len());
        let place = self.random.choose(&PLACES);
        let found = self.found(number, place);
        let trust = if self.random.coin() {
            Trust::named()
        } else {
            self.trust(number)
        };
        let stored = self.stored[number].clone();
        let Some(name) = self.names[number].clone() else {
            return;
        };
        let cache = Some(self.random_cache()).filter(|_| self.random.coin());
        let options = OpenOptions::new().cache(cache);
        let what = format!("{name}: {place:?} {:?} with {trust:?}", found.layout);
        let is_named = match &trust {
            Trust::Pinned(pins) => {
                pins.digest.is_none() && pins.key.is_none() && pins.root_hash.is_none()
            }
            _ => true,
        };
        let is_right = place == Place::Honest && (is_named || self.satisfies(&trust, &stored));
        self.registry.replace_all(&stored, &found);
        match open(name, &trust, &options) {
            Ok(opened) => {
                self.opened += 1;
                assert_eq!(opened.file().size(), stored.data.len() as u64, "{what}");
                for (start, bytes) in self.read(&opened.file()) {
                    match bytes {
                        Ok(bytes) => {
                            assert!(bytes == stored.data[start..start + bytes.len()], "{what}");
                        }
                        Err(error) => assert!(!is_right, "{what}: {error}"),
                    }
                }
            }
            Err(error) => {
                self.refused += 1;
                assert!(!is_right, "{what}: {error}");
            }
        }
        self.registry.replace_all(&stored, &stored);
    }

    fn random_cache(&mut self) -> Cache {
        let number = self.random.below(self.caches.len());
        self.caches[number].1.clone()
    }

    fn options(&mut self, found: &Stored) -> OpenOptions {
        let sidecar = found.sidecar.clone();
        let sidecar = sidecar.map(|sidecar| Location::slow_source("seal", sidecar));
        let options = OpenOptions::new()
            .sidecar(sidecar)
            .hash_offset(found.hash_offset);
        if self.random.below(4) > 0 {
            options.cache(self.random_cache())
        } else {
            options
        }
    }

    /// What is found at a place where content `number` is expected.
    fn found(&mut self, number: usize, place: Place) -> Stored {
        let mut found = self.stored[number].clone();
        let other = self.random.below(self.stored.len());
        match place {
            Place::Honest => {}
            Place::FlipsData => {
                let at = self.random.below(found.data.len());
                found.file[at] ^= 1;
            }
            Place::FlipsSeal => {
                let (data, sidecar) = (found.data.len(), found.sidecar.is_some());
                let seal = found.sealing();
                let start = if sidecar { 0 } else { data };
                let at = start + self.random.below(seal.len() - start);
                seal[at] ^= 1;
            }
            Place::Replaces => {
                let other = self.stored[other].clone();
                match self.random.below(3) {
                    0 => return other,
                    1 => found.file = other.file,
                    _ if other.sidecar.is_some() => found.sidecar = other.sidecar,
                    _ => found.hash_offset = other.hash_offset,
                }
            }
            Place::StoresOtherwise => {
                let same = |other: &&Stored| other.data == found.data;
                let all: Vec<_> = self.stored.iter().filter(same).cloned().collect();
                return all[self.random.below(all.len())].clone();
            }
            Place::Truncates => {
                let file = self.one_of(&mut found);
                file.truncate(file.len() - 4096.min(file.len()));
            }
            Place::Extends => {
                let more = [1, 4, 4096][self.random.below(3)];
                self.one_of(&mut found).extend(noise(more, 99));
            }
            Place::ChangesSuperblock => {
                // The number of data blocks, the type of the hashes, and the salt.
                let at = [72, 73, 12, 88][self.random.below(4)];
                let at = at + found.hash_offset.unwrap_or(0) as usize;
                if matches!(found.known, Known::Root { .. }) {
                    found.sealing()[at] ^= 1 << self.random.below(3);
                }
            }
        }
        found
    }

    fn one_of<'a>(&mut self, found: &'a mut Stored) -> &'a mut Vec<u8> {
        match (&mut found.sidecar, self.random.coin()) {
            (Some(sidecar), true) => sidecar,
            _ => &mut found.file,
        }
    }

    /// Pins of content `number`, mostly.
    fn trust(&mut self, number: usize) -> Trust {
        if self.random.below(10) == 0 {
            return Trust::Unpinned;
        }
        let number = match self.random.below(8) {
            0 => self.random.below(self.stored.len()),
            _ => number,
        };
        let mut pins = Pins::default();
        match self.stored[number].known.clone() {
            Known::Root { root, blocks } => {
                pins.root_hash = Some(if self.random.coin() {
                    root.with_data_blocks(blocks)
                } else {
                    root
                });
            }
            Known::Digest(digest) => {
                let which = 1 + self.random.below(3);
                pins.digest = Some(digest).filter(|_| which & 1 > 0);
                let key = self.random.below(2);
                pins.key = Some(self.keys.public(key)).filter(|_| which & 2 > 0);
            }
        }
        Trust::Pinned(pins)
    }

    /// Whether honest content should be opened with these pins.
    fn satisfies(&self, trust: &Trust, found: &Stored) -> bool {
        let pins = match trust {
            Trust::Pinned(pins) => pins,
            Trust::Unpinned => return matches!(found.known, Known::Digest(_)),
        };
        match &found.known {
            Known::Digest(digest) => {
                let has_key = |number: usize| pins.key.as_ref() == Some(&self.keys.public(number));
                let is_digest = pins.digest.is_none_or(|pin| pin == *digest);
                let is_signed = pins.key.is_none() || found.signer.is_some_and(has_key);
                pins.root_hash.is_none() && is_digest && is_signed
            }
            Known::Root { root, blocks } => pins
                .root_hash
                .as_ref()
                .is_some_and(|pin| pin == root || *pin == root.clone().with_data_blocks(*blocks)),
        }
    }

    /// The only content that may be read; `None` if the pins do not say which.
    fn expected(
        &self,
        trust: &Trust,
        identity: &Identity,
        found: &Stored,
        place: Place,
    ) -> Option<Vec<u8>> {
        let of = |is_it: &dyn Fn(&Stored) -> bool| {
            let stored = self.stored.iter().find(|stored| is_it(stored));
            stored.map(|stored| stored.data.clone())
        };
        let by_digest = |digest: FileDigest| {
            of(&|stored| matches!(stored.known, Known::Digest(known) if known == digest))
        };
        let by_root = |hash: &RootHash| {
            of(&|stored| matches!(&stored.known, Known::Root { root, .. } if root == hash))
        };
        match (trust, identity) {
            (Trust::Pinned(pins), Identity::FileDigest(digest)) => {
                assert!(pins.digest.is_none_or(|pin| pin == *digest));
                let content = by_digest(*digest);
                assert!(content.is_some(), "nobody has made {digest}");
                if let Some(key) = &pins.key {
                    let signed = self.stored.iter().any(|stored| {
                        matches!(stored.known, Known::Digest(known) if known == *digest)
                            && stored
                                .signer
                                .is_some_and(|number| self.keys.public(number) == *key)
                    });
                    assert!(signed, "{digest} was not signed with this key");
                }
                content
            }
            // The root hash does not cover the superblock: only a place itself can be wrong about its own.
            (_, Identity::RootHash(_)) if !is_superblock_right(found, place) => None,
            (_, Identity::RootHash(root)) => by_root(&(*root).into()),
            (_, Identity::FileDigest(digest)) => by_digest(*digest),
        }
    }

    /// The size that pins require by a number of data blocks.
    fn pinned_size(&self, trust: &Trust) -> Option<u64> {
        let Trust::Pinned(pins) = trust else {
            return None;
        };
        let pin = pins.root_hash.as_ref()?;
        self.stored.iter().find_map(|stored| match &stored.known {
            Known::Root { root, blocks } if *pin == root.clone().with_data_blocks(*blocks) => {
                Some(blocks * 4096)
            }
            _ => None,
        })
    }

    /// Reads parts of a content, and where they begin.
    fn read(&mut self, content: &dyn ReadAt) -> Vec<(usize, Result<Vec<u8>, ReadError>)> {
        let size = content.size() as usize;
        let parts = match self.random.below(3) {
            0 => vec![(0, size)],
            _ => (0..3)
                .map(|_| {
                    let start = self.random.below(size);
                    (start, 1 + self.random.below((size - start).min(40_000)))
                })
                .collect(),
        };
        let read = parts.into_iter().map(|(start, len)| {
            let mut bytes = vec![0; len];
            let read = content.read_exact_at(&mut bytes, start as u64);
            (start, read.map(|()| bytes))
        });
        read.collect()
    }
}

fn is_superblock_right(found: &Stored, place: Place) -> bool {
    let is_changed = matches!(place, Place::FlipsSeal | Place::ChangesSuperblock);
    !is_changed || matches!(found.known, Known::Digest(_))
}

#[test]
fn only_what_is_pinned_is_read_and_what_is_honest_always() {
    let seed = env::var("VERIMOUNT_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("VERIMOUNT_SEED={seed}");
    let mut model = Model::new(seed);
    let steps = if is_exhaustive() { SEQUENCES } else { SAMPLE };
    for number in 0..steps {
        match number % IN_REGISTRY {
            0 => model.step_in_registry(),
            _ => model.step(),
        }
    }
    println!("{} opened, {} refused", model.opened, model.refused);
    assert!(model.opened > steps / 4 && model.refused > steps / 20);
}
