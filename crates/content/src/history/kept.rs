//! What is kept of content in the cache: the head of its seal, its tree and its data, each by itself. So it is no
//! matter how they are stored where they come from.
//!
//! The key names what the head must be. The head says how long tree and data are, and they are verified when they are
//! read. So nothing that one place says counts for another, nor anything that was in the cache.

use std::sync::Arc;

use verimount_cache::{Cache, Cached, Key, Object, Part};
use verimount_remote::registry::BlobDigest;
use verimount_source::Fetch;
use verimount_verity::{Descriptor, FileDigest, Identity, Seal, TreeGeometry};

use super::siblings::Siblings;
use crate::{
    RootHash,
    accepted::Accepted,
    far::{
        Access, NamedSuperblock,
        cached::{digest_of_key, find, keep, key_of_digest},
    },
    origin::ContentOrigin,
    place::Place,
};

/// The largest head of a seal, in bytes: many times that of a descriptor with its signature.
pub(crate) const MAX_HEAD: u64 = 64 << 10;

/// The copies of one content in a cache.
pub(crate) struct Kept {
    cache: Cache,
    key: Key,
}

impl Kept {
    /// The copies of what is accepted, if that says by itself which content it is.
    pub(crate) fn of_accepted(access: &Access, accepted: &Accepted) -> Option<Self> {
        let key = match accepted {
            Accepted::FsVerity {
                digest: Some(digest),
                ..
            } => key_of_digest(digest),
            Accepted::DmVerity {
                root,
                superblock: Some(NamedSuperblock::Digest(superblock)),
            } => key_of_root(root, superblock),
            _ => None,
        };
        Self::new(access, key?)
    }

    /// The copies of the content of a seal that was accepted.
    pub(crate) fn of_seal(access: &Access, seal: &Seal) -> Option<Self> {
        Self::new(access, key_of_seal(seal)?)
    }

    fn new(access: &Access, key: Key) -> Option<Self> {
        let cache = access.cache.clone()?;
        Some(Self { cache, key })
    }

    /// The seal of what is accepted at a place, if its head is here, with tree and data that are empty. The head is right: it is
    /// that which the key stands for.
    pub(crate) fn seal(&self, place: &Place, accepted: &Accepted) -> Option<Seal> {
        let head = find(&self.cache, &self.key, Part::Seal, MAX_HEAD)?.0;
        let seal = accepted.of_head(place, &head)?;
        let is_right = key_of_seal(&seal).as_ref() == Some(&self.key);
        is_right.then_some(seal)
    }

    /// Keeps what is read of the seal's tree and data. Blocks that are here of other content from its origin are taken
    /// from there.
    pub(crate) fn keep(&self, seal: Seal, origin: Option<ContentOrigin>) -> Seal {
        let head = keep(&self.cache, &self.key, Part::Seal, seal.head().to_vec());
        let mut held: Vec<Object> = head.into_iter().collect();
        let tree = seal.tree_unverified();
        let tree = copied(tree, self.object(Part::Tree, tree), Vec::new());
        let data = seal.data_unverified().clone();
        let copy = self.object(Part::Data, &data);
        // Siblings are looked for in the tree that is kept.
        let seal = seal.with_sources(data.clone(), tree.clone());
        let data = match origin {
            Some(origin) => {
                let siblings = Siblings::of(&self.cache, &self.key, &origin);
                held.extend(siblings.list().cloned());
                siblings.reading(seal.clone(), copy.clone())
            }
            None => data,
        };
        seal.with_sources(copied(&data, copy, held), tree)
    }

    /// What keeps a part, unless that is empty.
    fn object(&self, part: Part, source: &Arc<dyn Fetch>) -> Option<Object> {
        match source.length() {
            0 => None,
            size => self.cache.object(&self.key, part, size),
        }
    }
}

/// A source of which what is read is kept in `object`. As long as it is read, so is what it is `held` with.
fn copied(source: &Arc<dyn Fetch>, object: Option<Object>, held: Vec<Object>) -> Arc<dyn Fetch> {
    match object {
        Some(object) => Arc::new(Cached::new(source.clone(), object).holding(held)),
        None => source.clone(),
    }
}

/// The head of the seal of the content with this key, and the shape of its tree, if the key is made of a digest.
pub fn sealed(cache: &Cache, key: &Key) -> Option<(Vec<u8>, TreeGeometry)> {
    let head = find(cache, key, Part::Seal, MAX_HEAD)?.0;
    let (descriptor, _) = Descriptor::parse(&head).ok()?;
    let is_right = key_of_digest(&descriptor.file_digest()).as_ref() == Some(key);
    is_right.then(|| (head, descriptor.geometry().clone()))
}

/// Whether the head of a seal is not that of the content with this key, which is made of a digest.
pub fn has_wrong_seal(cache: &Cache, key: &Key) -> bool {
    digest_of_key::<FileDigest>(key).is_some() && sealed(cache, key).is_none()
}

/// The key of content with a seal.
fn key_of_seal(seal: &Seal) -> Option<Key> {
    match seal.identity() {
        Identity::FileDigest(digest) => key_of_digest(digest),
        Identity::RootHash(root) => key_of_root(&(*root).into(), &BlobDigest::of(seal.head())),
    }
}

/// The key of content with a root hash, whose superblock has this digest. Only both together say what it is.
fn key_of_root(root: &RootHash, superblock: &BlobDigest) -> Option<Key> {
    let both = BlobDigest::of(format!("{} {superblock}", root.text()).as_bytes());
    Key::new(&format!("dm-verity-{}", both.to_string().replace(':', "-"))).ok()
}

#[cfg(test)]
mod tests {
    use std::{num::NonZeroUsize, ops::ControlFlow};

    use verimount_verity::{TreeParams, build_tree};

    use super::*;

    #[test]
    fn a_head_is_that_of_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"), None).unwrap();
        let [(own, head), (other, _)] = [1, 2].map(|byte| {
            let (params, threads) = (TreeParams::default(), NonZeroUsize::MIN);
            let go_on = &mut |_| ControlFlow::Continue(());
            let made = build_tree(&vec![byte; 5000], &params, threads, &mut (), go_on).unwrap();
            let key = key_of_digest(&made.file_digest()).unwrap();
            (key, made.to_bytes(0).to_vec())
        });
        // What is no digest says nothing of the head.
        let device = Key::new("dm-verity-00").unwrap();
        for (key, is_right, is_wrong) in [
            (&own, true, false),
            (&other, false, true),
            (&device, false, false),
        ] {
            keep(&cache, key, Part::Seal, head.clone()).unwrap();
            assert_eq!(sealed(&cache, key).is_some(), is_right, "{key}");
            assert_eq!(has_wrong_seal(&cache, key), is_wrong, "{key}");
        }
    }

    #[test]
    fn content_with_another_superblock_has_another_key() {
        let root: RootHash = "0".repeat(64).parse().unwrap();
        let key = |superblock: &[u8]| key_of_root(&root, &BlobDigest::of(superblock)).unwrap();
        assert_ne!(key(b"one"), key(b"two"));
    }
}
