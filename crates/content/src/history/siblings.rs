//! What else in the cache came from where content comes from: blocks that are in both are fetched once.
//!
//! The cache has a list for each origin: the keys of the last contents from there. Nothing in it is trusted, nor what it
//! leads to.

use std::{ops::Range, str, sync::Arc};

use verimount_cache::{Cache, Key, Object, Part};
use verimount_remote::registry::BlobDigest;
use verimount_source::Fetch;
use verimount_verity::{BlockHasher, Leaves, Seal, Sealed, Trust, dm_verity::HashArea};

use super::kept::MAX_HEAD;
use crate::{
    far::cached::{self, key_of_digest},
    like::{Gathering, Like, Olds, TakeOver},
    origin::ContentOrigin,
};

/// How many contents of an origin are remembered.
const REMEMBERED: usize = 8;

/// How many blocks are looked for at a time: their digests are in about a granule of the tree.
const PIECE: usize = 1 << 12;

/// The longest list, in bytes.
const MAX_LIST: u64 = 2 << 10;

/// Contents that came from one origin before.
pub(crate) struct Siblings {
    cache: Cache,
    keys: Vec<Key>,
    list: Option<Object>,
}

impl Siblings {
    /// Those of the content with this key, which is remembered as the last if it was found there.
    pub(crate) fn of(cache: &Cache, key: &Key, origin: &ContentOrigin) -> Self {
        let mut siblings = Self {
            cache: cache.clone(),
            keys: Vec::new(),
            list: None,
        };
        let Some(list) = key_of_digest(&BlobDigest::of(origin.name.as_bytes())) else {
            return siblings;
        };
        let found = cached::find(cache, &list, Part::Origin, MAX_LIST);
        let (remembered, object) = found.unzip();
        let remembered = remembered.unwrap_or_default();
        siblings.list = object;
        let keys = str::from_utf8(&remembered).unwrap_or_default().lines();
        let keys = keys.filter_map(|line| Key::new(line).ok());
        let keys = keys.filter(|other| other != key).take(REMEMBERED - 1);
        siblings.keys = keys.collect();
        let all = [key].into_iter().chain(&siblings.keys);
        let now: String = all.map(|key| format!("{key}\n")).collect();
        if origin.has_it && now.as_bytes() != remembered {
            siblings.list = cached::keep(cache, &list, Part::Origin, now.into());
        }
        siblings
    }

    /// The list of them.
    pub(crate) fn list(&self) -> Option<&Object> {
        self.list.as_ref()
    }

    /// The data of a seal that was accepted, with blocks read from siblings that have them, which its own copy takes over. They are
    /// looked for when something is read first.
    pub(crate) fn reading(self, seal: Seal, copy: Option<Object>) -> Arc<dyn Fetch> {
        let data = seal.data_unverified().clone();
        if self.keys.is_empty() {
            return data;
        }
        // If it cannot be verified, whoever reads it will be told.
        match Like::new(seal, move |function| self.gather(function, copy.as_ref())) {
            Ok(like) => Arc::new(like),
            Err(_) => data,
        }
    }

    fn gather(&self, function: &BlockHasher, copy: Option<&Object>) -> Olds {
        let mut gathering = Gathering::new(function.clone(), self.cache.path());
        for key in &self.keys {
            if let Some((leaves, data)) = leaves(&self.cache, key)
                && leaves.function() == function
            {
                let size = function.block_size() as u64;
                let there = data.data_ranges(0..data.length());
                let there = there.map(|bytes| bytes.start / size..bytes.end.div_ceil(size));
                // So that a part of the tree which is not there hides no more than its own blocks.
                let there = there.flat_map(pieces);
                let take_over = copy.map(|copy| -> TakeOver {
                    let (copy, data) = (copy.clone(), data.clone());
                    Box::new(move |bytes, at| copy.take_over(bytes, &data, at))
                });
                // What cannot be found is fetched.
                let _ = gathering.add(&leaves, Arc::new(data.clone()), take_over, there);
            }
        }
        let (olds, failed) = gathering.finish();
        if let Some(error) = failed {
            tracing::warn!(%error, "other content in the cache is not used");
        }
        olds
    }
}

fn pieces(blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let starts = (blocks.start..blocks.end).step_by(PIECE);
    starts.map(move |start| start..blocks.end.min(start + PIECE as u64))
}

/// The digests of content in a cache, and its data.
fn leaves(cache: &Cache, key: &Key) -> Option<(Leaves, Object)> {
    let head = cached::find(cache, key, Part::Seal, MAX_HEAD)?.0;
    let data = cache.existing(key, Part::Data)?;
    let tree = Arc::new(cache.existing(key, Part::Tree)?);
    let leaves = match Sealed::from_parts(&head, Arc::new(data.clone()), tree.clone()) {
        Ok(sealed) => sealed
            .accepted_by(&Trust::Unpinned)
            .ok()?
            .leaves_unverified(),
        Err(_) => {
            let area = HashArea::from_parts(&head, Arc::new(data.clone()), tree).ok()?;
            area.leaves_unverified()
        }
    };
    Some((leaves, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_contents_are_remembered_by_origin() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"), None).unwrap();
        let origin = |name: &str| ContentOrigin {
            name: name.to_owned(),
            has_it: true,
        };
        let key = |number: usize| Key::new(&format!("key-{number}")).unwrap();
        let siblings = |number, name| Siblings::of(&cache, &key(number), &origin(name)).keys;
        for number in 0..20_usize {
            let expected = (number.saturating_sub(REMEMBERED - 1)..number)
                .rev()
                .map(key);
            assert_eq!(siblings(number, "here"), expected.collect::<Vec<_>>());
        }
        assert_eq!(siblings(1, "there"), []);
        // One that comes again is the last.
        assert_eq!(siblings(15, "here")[..2], [key(19), key(18)]);
        assert_eq!(siblings(19, "here")[..2], [key(15), key(18)]);
        let longest = Key::new(&"a".repeat(160)).unwrap().to_string();
        assert!((longest.len() + 1) * REMEMBERED <= MAX_LIST as usize);
    }
}
