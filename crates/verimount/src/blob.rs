//! Blobs of container images, which are named by their digests.

use std::io::{Read, Write};

use sha2::{Sha256, Sha512, digest::DynDigest};
use verimount_content::{Step, UNKNOWN, Watch, step};
use verimount_verity::{Digest, HashAlgorithm, parse_hex};

use crate::fault::ContentFault;

/// How much of a blob is read at once, in bytes.
const PIECE: usize = 1 << 20;

/// The digest that is written as `ALGORITHM:HEX`; `None` for other texts and algorithms.
pub(crate) fn parse_digest(text: &str) -> Option<Digest> {
    let (algorithm, digits) = text.split_once(':')?;
    Digest::new(algorithm.parse().ok()?, &parse_hex(digits)?)
}

/// The text of a digest.
pub(crate) fn digest_text(digest: &Digest) -> String {
    format!("{}:{digest}", digest.algorithm())
}

/// Copies a blob, and returns its digest and the number of its bytes.
pub(crate) fn hashed(
    mut from: impl Read,
    mut to: impl Write,
    algorithm: HashAlgorithm,
    watch: &mut Watch<'_>,
) -> Result<(Digest, u64), ContentFault> {
    let mut progress = step(watch, Step::Hash, UNKNOWN);
    let mut hasher: Box<dyn DynDigest> = match algorithm {
        HashAlgorithm::Sha256 => Box::<Sha256>::default(),
        HashAlgorithm::Sha512 => Box::<Sha512>::default(),
    };
    let mut piece = vec![0; PIECE];
    let mut len = 0;
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            let digest = Digest::new(algorithm, &hasher.finalize());
            return Ok((digest.expect("it is of this algorithm"), len));
        }
        hasher.update(&piece[..read]);
        to.write_all(&piece[..read])?;
        len += read as u64;
        ContentFault::if_ended(progress(read as u64))?;
    }
}
