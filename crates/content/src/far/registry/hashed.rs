//! Reads a layer once, and learns its digest by that.

use verimount_remote::registry::{BlobDigest, BlobHasher};
use verimount_source::ReadAt;

use crate::{Error, Location, fault::Fault};

/// How much is read at a time.
const CHUNK: usize = 1 << 20;

/// Gives all bytes of a layer, which is at a location, in order to `take`, and returns their digest.
pub fn hashed(
    layer: &dyn ReadAt,
    at: &Location,
    mut take: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<BlobDigest, Error> {
    let mut hasher = BlobHasher::default();
    let mut buf = vec![0; CHUNK];
    for start in (0..layer.size()).step_by(CHUNK) {
        let len = (layer.size() - start).min(CHUNK as u64) as usize;
        let read = layer.read_exact_at(&mut buf[..len], start);
        read.map_err(|error| Fault::read(at, error))?;
        hasher.add(&buf[..len]);
        take(&buf[..len])?;
    }
    Ok(hasher.finish())
}
