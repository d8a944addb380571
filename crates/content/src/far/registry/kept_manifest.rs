//! Manifests in the cache. One is named by the digest of its bytes, which are compared with that at each use.

use verimount_cache::{Cache, Object, Part};
use verimount_remote::registry::{BlobDigest, Manifest};
use verimount_source::Fetch;

use crate::far::cached::{self, key_of_digest};

/// The bytes of the manifest with this digest, if it is kept, and the object that they are in. Wrong bytes are removed.
pub fn find(cache: &Cache, digest: BlobDigest) -> Option<(Vec<u8>, Object)> {
    let (bytes, object) = cached::find(
        cache,
        &key_of_digest(&digest)?,
        Part::Manifest,
        Manifest::MAX_SIZE,
    )?;
    if BlobDigest::of(&bytes) == digest {
        return Some((bytes, object));
    }
    object.reject(0..object.length());
    None
}

/// Keeps the bytes of a manifest, which have this digest. No process removes them as long as the object is there.
pub(crate) fn keep(cache: &Cache, digest: BlobDigest, bytes: Vec<u8>) -> Option<Object> {
    cached::keep(cache, &key_of_digest(&digest)?, Part::Manifest, bytes)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io, os::unix::fs::FileExt};

    use super::*;

    #[test]
    fn what_is_kept_is_found_as_long_as_it_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"), None).unwrap();
        let bytes = b"a manifest".repeat(20_000);
        let digest = BlobDigest::of(&bytes);
        let found = || find(&cache, digest).map(|(bytes, _)| bytes);
        assert_eq!(found(), None);
        let object = keep(&cache, digest, bytes.clone());
        assert!(object.is_some());
        assert!(found().unwrap() == bytes);
        let key = &cache.stored().unwrap()[0].key;
        assert_eq!(cached::digest_of_key(key), Some(digest));

        let path = cache
            .path()
            .join(format!("{}.manifest", key_of_digest(&digest).unwrap()));
        let file = File::options().write(true).open(path).unwrap();
        let damages: [&dyn Fn() -> io::Result<()>; 4] = [
            &|| file.write_all_at(b"wrong", 150_000),
            &|| file.set_len(100_000),
            &|| file.set_len(1 << 30),
            &|| file.set_len(0),
        ];
        for damage in damages {
            damage().unwrap();
            assert_eq!(found(), None);
            keep(&cache, digest, bytes.clone());
            assert!(found().unwrap() == bytes);
        }
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"), Some(0)).unwrap();
        let digest = BlobDigest::of(b"a manifest");
        keep(&cache, digest, b"a manifest".to_vec());
        assert!(find(&cache, digest).is_none());
    }
}
