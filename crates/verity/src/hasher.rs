use std::sync::OnceLock;

use sha2::{Digest as _, Sha256, Sha512};
use verimount_source::{Ask, Fetch, Given, ReadError};

use crate::{Digest, HashAlgorithm, TreeGeometry, params::Hashing};

/// What makes the digest of a block from its bytes: hash, block size, and what is hashed before each block. Where it is
/// the same, equal blocks have equal digests, in trees of either format. A short last block is extended by zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHasher {
    algorithm: HashAlgorithm,
    block_size: usize,
    prefix: Vec<u8>,
    multi_stream: bool,
}

/// How many blocks one call of the multi-stream hash takes: several times the width of the widest
/// vector unit, and few enough for their references to live on the stack.
const STREAMS: usize = 64;

impl BlockHasher {
    pub(crate) fn new(hashing: &Hashing, block_log2: u8) -> Self {
        Self {
            algorithm: hashing.algorithm,
            block_size: 1 << block_log2,
            prefix: hashing.prefix.clone(),
            multi_stream: multi_stream_agrees(),
        }
    }

    /// The hash.
    pub fn algorithm(&self) -> HashAlgorithm {
        self.algorithm
    }

    /// The size of a block in bytes.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// The size of a digest in bytes.
    pub fn digest_size(&self) -> usize {
        self.algorithm.digest_size()
    }

    /// Size in bytes of the digests of `len` bytes of whole blocks.
    pub(crate) fn digests_len(&self, len: usize) -> usize {
        len / self.block_size * self.digest_size()
    }

    /// The digests of a run of whole blocks, one after the other.
    pub fn digests(&self, blocks: &[u8]) -> Vec<u8> {
        let mut digests = vec![0; self.digests_len(blocks.len())];
        self.hash_into(blocks, &mut digests);
        digests
    }

    /// Fills `digests` with the digests of a run of whole blocks.
    pub(crate) fn hash_into(&self, blocks: &[u8], digests: &mut [u8]) {
        debug_assert!(blocks.len().is_multiple_of(self.block_size));
        debug_assert_eq!(digests.len(), self.digests_len(blocks.len()));
        match self.algorithm {
            HashAlgorithm::Sha256 if self.multi_stream => {
                multi_stream_run(&self.prefix, self.block_size, blocks, digests);
            }
            HashAlgorithm::Sha256 => self.serial_run::<Sha256>(blocks, digests),
            HashAlgorithm::Sha512 => self.serial_run::<Sha512>(blocks, digests),
        }
    }

    /// One digest from a run of digests.
    pub(crate) fn digest(&self, bytes: &[u8]) -> Digest {
        Digest::new(self.algorithm, bytes).expect("the caller takes one digest's bytes")
    }

    fn serial_run<H: sha2::Digest + Clone>(&self, blocks: &[u8], digests: &mut [u8]) {
        let salted = H::new_with_prefix(&self.prefix);
        for (block, digest) in blocks
            .chunks_exact(self.block_size)
            .zip(digests.chunks_exact_mut(self.digest_size()))
        {
            digest.copy_from_slice(&salted.clone().chain_update(block).finalize());
        }
    }
}

/// The digest of the topmost block of a stored tree, which is the root hash if it is unchanged, and who gave it. `None` without
/// a tree, as data of a single block has none.
pub(crate) fn topmost_digest(
    tree: &dyn Fetch,
    hashing: &Hashing,
    geometry: &TreeGeometry,
    ask: Ask<'_>,
) -> Result<Option<(Digest, Given)>, ReadError> {
    if geometry.levels() == 0 {
        return Ok(None);
    }
    let hasher = hashing.tree_hasher();
    let mut topmost = vec![0; hasher.block_size()];
    let given = tree.fetch(&mut topmost, 0, ask)?;
    let digest = hasher.digest(&hasher.digests(&topmost));
    Ok(Some((digest, given)))
}

/// The hash of a descriptor: unsalted, of any length.
pub(crate) fn hash_plain(algorithm: HashAlgorithm, bytes: &[u8]) -> Digest {
    let digest = match algorithm {
        HashAlgorithm::Sha256 => Digest::new(algorithm, &Sha256::digest(bytes)),
        HashAlgorithm::Sha512 => Digest::new(algorithm, &Sha512::digest(bytes)),
    };
    digest.expect("a hash has its own length")
}

/// SHA-256 of every block, several at a time in the processor's vector units.
fn multi_stream_run(prefix: &[u8], block_size: usize, blocks: &[u8], digests: &mut [u8]) {
    let (digests, _) = digests.as_chunks_mut::<32>();
    for (run, out) in blocks
        .chunks(block_size * STREAMS)
        .zip(digests.chunks_mut(STREAMS))
    {
        let mut messages = [&[][..]; STREAMS];
        for (message, block) in messages.iter_mut().zip(run.chunks_exact(block_size)) {
            *message = block;
        }
        tape_sha256::hash_many_prefixed(prefix, &messages[..out.len()], out);
    }
}

/// Whether the multi-stream hash, which selects its code for the processor, agrees with `sha2` on
/// this machine. All verification depends on it, so it is tested once before its first use. If it
/// is wrong, `sha2` does all the work.
fn multi_stream_agrees() -> bool {
    static AGREES: OnceLock<bool> = OnceLock::new();
    *AGREES.get_or_init(|| {
        // No salt, one that fills the hash's internal block, one that shifts the data within it.
        let agrees = [&[][..], &[0x5a; 64], &[0xa5; 32]]
            .into_iter()
            .all(self_test);
        if !agrees {
            tracing::error!(
                backend = tape_sha256::backend(),
                "the multi-stream SHA-256 is wrong on this processor; using the plain one"
            );
        }
        agrees
    })
}

fn self_test(prefix: &[u8]) -> bool {
    const BLOCK: usize = 1024;
    // Every number of streams, from one to a few more than the widest vector unit has, in one call
    // each.
    let blocks: Vec<u8> = (0..BLOCK * 35).map(|i| (i ^ (i >> 7)) as u8).collect();
    (1..=35).all(|count| {
        let run = &blocks[..BLOCK * count];
        let mut digests = vec![0; 32 * count];
        multi_stream_run(prefix, BLOCK, run, &mut digests);
        run.chunks_exact(BLOCK)
            .zip(digests.chunks_exact(32))
            .all(|(block, digest)| {
                *digest
                    == *Sha256::new_with_prefix(prefix)
                        .chain_update(block)
                        .finalize()
            })
    })
}

#[cfg(test)]
mod tests {
    use verimount_testkit::cases;

    use super::*;

    #[test]
    fn the_multi_stream_hash_is_right_on_this_processor() {
        assert!(multi_stream_agrees());
    }

    #[test]
    fn both_hashes_agree() {
        cases(256, 512, |u| {
            let log2 = u.int_in_range(9..=13)?;
            let count: usize = u.int_in_range(0..=70)?;
            let seed: u8 = u.arbitrary()?;
            let prefix_len = u.int_in_range(0..=256)?;
            let hashing = Hashing {
                algorithm: HashAlgorithm::Sha256,
                data_block_log2: log2,
                hash_block_log2: log2,
                prefix: u.bytes(prefix_len)?.to_vec(),
            };
            let blocks = (0..count << log2).map(|i| ((i * 31) >> 3) as u8 ^ seed);
            let blocks: Vec<u8> = blocks.collect();
            let mut hasher = hashing.data_hasher();
            let multi = hasher.digests(&blocks);
            hasher.multi_stream = false;
            assert_eq!(multi, hasher.digests(&blocks));
            Ok(())
        });
    }
}
