//! Bytes that are kept in the cache as a whole.

use std::{fmt::Display, str::FromStr, sync::Arc};

use verimount_cache::{Cache, Cached, Key, Object, Part};
use verimount_source::{Ask, Fetch};

/// The bytes that are kept as a whole, at most `limit`, and the object that they are in.
pub(crate) fn find(cache: &Cache, key: &Key, part: Part, limit: u64) -> Option<(Vec<u8>, Object)> {
    let object = cache.existing(key, part)?;
    let size = object.known_size()?;
    let mut bytes = vec![0; usize::try_from(size.min(limit)).ok()?];
    object.fetch(&mut bytes, 0, Ask::default()).ok()?;
    Some((bytes, object))
}

/// Keeps bytes as a whole. No process removes them as long as the object is there.
pub(crate) fn keep(cache: &Cache, key: &Key, part: Part, bytes: Vec<u8>) -> Option<Object> {
    let len = bytes.len();
    let object = cache.object(key, part, len as u64)?;
    let copy = Cached::new(Arc::new(bytes), object.clone());
    // Whatever is there is replaced by what is read.
    let ask = Ask::default().past_caches();
    copy.fetch(&mut vec![0; len], 0, ask).ok()?;
    Some(object)
}

/// The key of what has a digest, such as `sha256-3d24…`.
pub(crate) fn key_of_digest(digest: &impl Display) -> Option<Key> {
    Key::new(&digest.to_string().replace(':', "-")).ok()
}

/// The digest that a key is made of, if it is of this kind.
pub fn digest_of_key<D: FromStr>(key: &Key) -> Option<D> {
    key.to_string().replacen('-', ":", 1).parse().ok()
}
