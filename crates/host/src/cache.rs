//! What is kept of content on other machines.

use std::{ops::Range, sync::Arc};

use verimount_cache::{Cache, CacheError, Object, Part};
pub use verimount_cache::{Cleared, Key, Stored};
use verimount_content::{cached, kept, registry::kept_manifest};
use verimount_source::{Fetch, GRANULE, ReadAt, ReadError, Scratch};
use verimount_verity::{Sealed, Trust, VerifiedReader, VerifyOptions};

/// What [`verify`] found of one content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckedCopy {
    /// Its key in the cache.
    pub key: Key,
    /// How many bytes of data match.
    pub good: u64,
    /// How many bytes of data or of the Merkle tree did not, and were removed: whole granules.
    pub removed: u64,
    /// How many cannot be checked, as the seal or a part of the Merkle tree is missing.
    pub unchecked: u64,
}

/// Reads all data in a cache, removes what does not match its digest, and reports each content to `checked`.
///
/// # Errors
/// [`CacheError`].
pub fn verify(cache: &Cache, mut checked: impl FnMut(CheckedCopy)) -> Result<(), CacheError> {
    for stored in cache.stored()? {
        let check = match stored.part {
            Part::Data => check,
            Part::Manifest => check_manifest,
            Part::Seal if kept::has_wrong_seal(cache, &stored.key) => remove,
            // With the data.
            Part::Seal | Part::Tree | Part::Origin => continue,
        };
        if let Some(object) = cache.existing(&stored.key, stored.part) {
            checked(check(cache, &stored.key, &object));
        }
    }
    Ok(())
}

/// It is wrong as a whole.
fn remove(cache: &Cache, key: &Key, object: &Object) -> CheckedCopy {
    let removed_before = cache.stats().rejected;
    object.reject(0..object.length());
    CheckedCopy {
        key: key.clone(),
        good: 0,
        removed: cache.stats().rejected - removed_before,
        unchecked: 0,
    }
}

/// It is right or wrong as a whole.
fn check_manifest(cache: &Cache, key: &Key, manifest: &Object) -> CheckedCopy {
    let kept = || {
        let ranges = manifest.data_ranges(0..manifest.length());
        ranges.map(|range| range.end - range.start).sum::<u64>()
    };
    let before = kept();
    let digest = cached::digest_of_key(key);
    let is_right = digest.is_some_and(|digest| kept_manifest::find(cache, digest).is_some());
    let after = kept();
    CheckedCopy {
        key: key.clone(),
        good: if is_right { after } else { 0 },
        removed: before.saturating_sub(after),
        unchecked: if is_right { 0 } else { after },
    }
}

fn check(cache: &Cache, key: &Key, data: &Object) -> CheckedCopy {
    let mut copy = CheckedCopy {
        key: key.clone(),
        good: 0,
        removed: 0,
        unchecked: 0,
    };
    let removed_before = cache.stats().rejected;
    let reader = open(cache, key, data);
    let mut scratch = Scratch::default();
    for piece in data.data_ranges(0..data.length()).flat_map(pieces) {
        let end = reader.as_ref().map_or(piece.end, ReadAt::size);
        let piece = piece.start.min(end)..piece.end.min(end);
        let len = piece.end - piece.start;
        let read = reader.as_ref().map(|reader| {
            let read = reader.read_borrowed(&mut scratch, piece.start, len as usize);
            read.map(drop)
        });
        let is_here = || data.data_ranges(piece.clone()).next().is_some();
        match read {
            Some(Ok(())) => copy.good += len,
            // The reader has distrusted it, whereby it was removed.
            Some(Err(ReadError::Rejected(_))) if !is_here() => {}
            // Perhaps because the reader has removed a part of the tree.
            _ => copy.unchecked += len,
        }
    }
    copy.removed = cache.stats().rejected - removed_before;
    copy
}

/// What the cache keeps or removes as a whole.
fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let starts = range.clone().step_by(GRANULE as usize);
    starts.map(move |start| start..range.end.min(start + GRANULE))
}

/// A reader of what is kept; `None` if its seal or its tree is not.
fn open(cache: &Cache, key: &Key, data: &Object) -> Option<VerifiedReader> {
    let (seal, geometry) = kept::sealed(cache, key)?;
    let tree: Arc<dyn Fetch> = match geometry.tree_size() {
        0 => Arc::new(Vec::new()),
        size => {
            let tree = cache.existing(key, Part::Tree)?;
            Arc::new(Some(tree).filter(|tree| tree.known_size() == Some(size))?)
        }
    };
    data.known_size()
        .filter(|size| *size == geometry.data_size())?;
    let sealed = Sealed::from_parts(&seal, Arc::new(data.clone()), tree).ok()?;
    let seal = sealed.accepted_by(&Trust::Unpinned).ok()?;
    VerifiedReader::new(seal, VerifyOptions::default()).ok()
}
