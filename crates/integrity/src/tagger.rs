use std::sync::OnceLock;

use blake2::{
    Blake2b, Blake2s256, Digest,
    digest::{Output, consts::U32},
};
use crc32c::crc32c_append;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq;
use tape_sha256::Message;
use twox_hash::XxHash64;

use crate::{
    Algorithm, BadBlock, BlockSize, Error, Integrity, Superblock, TagSize, Usage, mac::Mac,
    mismatch::Tag, superblock::Salt,
};

/// The byte that fills the tag of a discarded block.
pub(crate) const DISCARDED: u8 = 0xf6;

/// The number of blocks per call of the multi-stream SHA-256: several times the lanes of the widest
/// vector unit, and few enough to keep the descriptors on the stack.
const STREAMS: usize = 64;

/// The maximum length of the prefix hashed before a block: the optional salt and the block's
/// sector.
const MAX_PREFIX: usize = size_of::<Salt>() + size_of::<u64>();

/// Computes tags.
///
/// A block's tag is the hash of the salt, if the volume has one, the number of the block's first
/// sector, and the block; cut or padded with zeros to the tag size.
pub(crate) struct Tagger {
    algorithm: Algorithm,
    /// For the algorithms that are keyed.
    mac: Option<Mac>,
    /// Whether SHA-256 takes several blocks at a time, in the processor's vector units.
    is_multi_stream: bool,
    salt: Option<Salt>,
    block_size: BlockSize,
    tag_size: TagSize,
}

impl Tagger {
    pub(crate) fn new(integrity: &Integrity, superblock: &Superblock) -> Result<Self, Error> {
        let algorithm = integrity.algorithm;
        let mac = match &integrity.key {
            Some(key) => Some(Mac::new(algorithm, key)?),
            None if algorithm.is_keyed() => return Err(Usage::KeyMissing.into()),
            None => None,
        };
        Ok(Self {
            algorithm,
            mac,
            is_multi_stream: algorithm == Algorithm::Sha256 && multi_stream_agrees(),
            salt: superblock.salt,
            block_size: superblock.shape.block_size,
            tag_size: superblock.shape.tag_size,
        })
    }

    /// Whether tags are keyed, and so cannot be computed without the key.
    pub(crate) fn is_keyed(&self) -> bool {
        self.algorithm.is_keyed()
    }

    /// The length in bytes of the tags of `len` bytes of whole blocks.
    pub(crate) fn tags_len(&self, len: usize) -> usize {
        len / self.block_size.bytes() * self.tag_size.bytes()
    }

    /// The tags of a run of whole blocks that begins at `sector`, one after the other.
    pub(crate) fn tags(&self, sector: u64, blocks: &[u8]) -> Vec<u8> {
        let mut tags = vec![0; self.tags_len(blocks.len())];
        debug_assert!(blocks.len().is_multiple_of(self.block_size.bytes()));
        match self.algorithm {
            Algorithm::Crc32c => self.each(sector, blocks, &mut tags, |prefix, block| {
                crc32c_append(crc32c_append(0, prefix), block).to_le_bytes()
            }),
            Algorithm::Crc32 => self.each(sector, blocks, &mut tags, |prefix, block| {
                crc32_raw(&[prefix, block]).to_le_bytes()
            }),
            Algorithm::Xxhash64 => self.each(sector, blocks, &mut tags, |prefix, block| {
                let mut hash = XxHash64::with_seed(0);
                std::hash::Hasher::write(&mut hash, prefix);
                std::hash::Hasher::write(&mut hash, block);
                std::hash::Hasher::finish(&hash).to_le_bytes()
            }),
            Algorithm::Sha1 => self.each(sector, blocks, &mut tags, digest::<Sha1>),
            Algorithm::Sha256 if self.is_multi_stream => {
                self.multi_stream(sector, blocks, &mut tags);
            }
            Algorithm::Sha256 => self.each(sector, blocks, &mut tags, digest::<Sha256>),
            Algorithm::Sha512 => self.each(sector, blocks, &mut tags, digest::<Sha512>),
            Algorithm::Blake2b256 => self.each(sector, blocks, &mut tags, digest::<Blake2b<U32>>),
            Algorithm::Blake2s256 => self.each(sector, blocks, &mut tags, digest::<Blake2s256>),
            Algorithm::HmacSha256 | Algorithm::HmacSha512 => {
                let mac = self.mac.as_ref().expect("the key was not missing");
                self.each(sector, blocks, &mut tags, |prefix, block| {
                    mac.of(&[prefix, block])
                });
            }
        }
        tags
    }

    /// The blocks of a run that do not match their tags.
    pub(crate) fn mismatches(&self, sector: u64, blocks: &[u8], stored: &[u8]) -> Vec<BadBlock> {
        let computed = self.tags(sector, blocks);
        debug_assert_eq!(
            computed.len(),
            stored.len(),
            "a block is compared with no tag"
        );
        if self.equal(&computed, stored) {
            return Vec::new();
        }
        let tags = computed
            .chunks(self.tag_size.bytes())
            .zip(stored.chunks(self.tag_size.bytes()));
        (sector..)
            .step_by(1 << self.block_size.log2_sectors())
            .zip(tags)
            .filter(|&(_, (computed, stored))| !self.equal(computed, stored))
            .map(|(sector, (computed, stored))| BadBlock {
                sector,
                expected: Tag::Known(stored.into()),
                actual: if self.is_keyed() {
                    Tag::Secret
                } else {
                    Tag::Known(computed.into())
                },
            })
            .collect()
    }

    /// The tags of `blocks` discarded blocks.
    pub(crate) fn discarded(&self, blocks: usize) -> Vec<u8> {
        vec![DISCARDED; blocks * self.tag_size.bytes()]
    }

    /// Compares tags; keyed ones in constant time, as the position of a difference would help an
    /// attacker to forge a tag.
    fn equal(&self, one: &[u8], other: &[u8]) -> bool {
        if self.is_keyed() {
            one.ct_eq(other).into()
        } else {
            one == other
        }
    }

    /// The prefix hashed before the block at `sector`: an array and the length in use.
    fn prefix(&self, sector: u64) -> ([u8; MAX_PREFIX], usize) {
        let mut prefix = [0; MAX_PREFIX];
        let salt = self.salt.as_ref().map_or(&[][..], |salt| salt);
        let len = salt.len() + size_of::<u64>();
        prefix[..salt.len()].copy_from_slice(salt);
        prefix[salt.len()..len].copy_from_slice(&sector.to_le_bytes());
        (prefix, len)
    }

    fn each<Digest: AsRef<[u8]>>(
        &self,
        sector: u64,
        blocks: &[u8],
        tags: &mut [u8],
        hash: impl Fn(&[u8], &[u8]) -> Digest,
    ) {
        let (mut prefix, len) = self.prefix(sector);
        let mut sector = sector;
        for (block, tag) in blocks
            .chunks_exact(self.block_size.bytes())
            .zip(tags.chunks_exact_mut(self.tag_size.bytes()))
        {
            prefix[len - 8..len].copy_from_slice(&sector.to_le_bytes());
            let digest = hash(&prefix[..len], block);
            copy_cut(digest.as_ref(), tag);
            sector += self.block_size.sectors();
        }
    }

    fn multi_stream(&self, sector: u64, blocks: &[u8], tags: &mut [u8]) {
        let run = STREAMS * self.block_size.bytes();
        let run_tags = STREAMS * self.tag_size.bytes();
        let mut sector = sector;
        for (blocks, tags) in blocks.chunks(run).zip(tags.chunks_mut(run_tags)) {
            let count = blocks.len() / self.block_size.bytes();
            let mut prefixes = [[0; MAX_PREFIX]; STREAMS];
            let mut len = 0;
            for prefix in &mut prefixes[..count] {
                (*prefix, len) = self.prefix(sector);
                sector += self.block_size.sectors();
            }
            let mut messages = [Message::new(&[]); STREAMS];
            for ((message, prefix), block) in messages
                .iter_mut()
                .zip(&prefixes)
                .zip(blocks.chunks_exact(self.block_size.bytes()))
            {
                *message = Message::prefixed(&prefix[..len], block);
            }
            let mut digests = [[0; 32]; STREAMS];
            tape_sha256::hash_messages(&messages[..count], &mut digests[..count]);
            for (tag, digest) in tags.chunks_exact_mut(self.tag_size.bytes()).zip(&digests) {
                copy_cut(digest, tag);
            }
        }
    }
}

/// Copies a digest to a tag, truncated if the tag is shorter.
fn copy_cut(digest: &[u8], tag: &mut [u8]) {
    let len = digest.len().min(tag.len());
    tag[..len].copy_from_slice(&digest[..len]);
}

/// CRC-32 with initial value 0 and no final inversion. The library, as is usual, inverts the
/// register at both ends.
fn crc32_raw(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(!0);
    for part in parts {
        hasher.update(part);
    }
    !hasher.finalize()
}

fn digest<H: Digest>(prefix: &[u8], block: &[u8]) -> Output<H> {
    H::new().chain_update(prefix).chain_update(block).finalize()
}

/// Whether the multi-stream SHA-256, which selects its code by the processor, agrees with `sha2` on
/// this one. Tested once before first use; if it is wrong, `sha2` is used instead.
fn multi_stream_agrees() -> bool {
    static AGREES: OnceLock<bool> = OnceLock::new();
    *AGREES.get_or_init(|| {
        let blocks: Vec<u8> = (0..STREAMS << 9).map(|i| (i ^ (i >> 7)) as u8).collect();
        let tagger = |is_multi_stream| Tagger {
            algorithm: Algorithm::Sha256,
            mac: None,
            is_multi_stream,
            salt: Some([0x5a; 16]),
            block_size: BlockSize::SECTOR,
            tag_size: TagSize::SHA256,
        };
        // Every number of streams from 1 to the maximum.
        let agrees = (1..=STREAMS).all(|count| {
            let run = &blocks[..count << 9];
            tagger(true).tags(7, run) == tagger(false).tags(7, run)
        });
        if !agrees {
            tracing::error!(
                backend = tape_sha256::backend(),
                "the multi-stream SHA-256 computes wrong digests on this processor; falling back to the plain one"
            );
        }
        agrees
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, superblock::tests::superblock};

    fn tagger(algorithm: Algorithm, salt: Option<Salt>, block: u64, tag: u16) -> Tagger {
        let key = Key::new(vec![0x0b; 20]).unwrap();
        let integrity = Integrity {
            algorithm,
            key: algorithm.is_keyed().then_some(key),
            journal_mac: None,
        };
        let mut superblock = superblock();
        superblock.salt = salt;
        superblock.shape.block_size = BlockSize::new(block).unwrap();
        superblock.shape.tag_size = TagSize::new(tag).unwrap();
        Tagger::new(&integrity, &superblock).unwrap()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The results of Python for `bytes([7]*16) + (8).to_bytes(8, "little") + bytes(range(256))*2`:
    /// `crc32c.crc32c`, `zlib.crc32(…, 0xffffffff) ^ 0xffffffff`, `xxhash.xxh64`, `hashlib`, and
    /// `hmac` with the key `bytes([0x0b]*20)`; numbers in little-endian order.
    #[test]
    fn tags_are_those_of_other_libraries() {
        let block: Vec<u8> = (0..=255).cycle().take(512).collect();
        for (algorithm, expected) in VECTORS {
            let tag_size = algorithm.digest_size();
            let tags = tagger(algorithm, Some([7; 16]), 512, tag_size).tags(8, &block);
            assert_eq!(hex(&tags), expected, "{algorithm}");
        }
    }

    const VECTORS: [(Algorithm, &str); 10] = [
        (Algorithm::Crc32c, "f9ae08d5"),
        (Algorithm::Xxhash64, "e1122ed6f79f85e2"),
        (Algorithm::Crc32, "2dd6fba9"),
        (Algorithm::Sha1, "cf2178bb3ac3d9ed1168bf81bbd1debedecdc069"),
        (
            Algorithm::Sha256,
            "993881b3b8e9f6e9194a3dfc97bbca4a55ed02ae5f201c37915e5f0d190f77d0",
        ),
        (
            Algorithm::Sha512,
            "e52919b5dd59b8b9376cd49b57d769b78ced662a369f02b059f845a61a4d72bfcc73edac93da525fe93fa649c16c1d8905769c54fe8ea2c51d2e3fd02f0cb6b8",
        ),
        (
            Algorithm::Blake2b256,
            "a45d428cc2699f0af5fa599d7d24dae56ad6885b092083127d373abd97d17d42",
        ),
        (
            Algorithm::Blake2s256,
            "36f010a0f034a2d5b46940e3e985337293af9a5dbe8d3fd0c56f42e73c6cb9d6",
        ),
        (
            Algorithm::HmacSha256,
            "38d912aaa3437db083b56b1e11bcd0fc70ce77fe48231c94ac25194207a01bd5",
        ),
        (
            Algorithm::HmacSha512,
            "b8a8a88f33e40461ac0dd0265fb9acb18e7d31aca91cfd9dc7a33ba57ac1b7cbe0942d24f5ca3136a58239fb605b41578c1055b91ae97d6548429427624ecb52",
        ),
    ];

    /// The kernel's tag of the first sector of an all-zero volume without salt.
    #[test]
    fn a_zero_sector_has_the_kernels_tag() {
        let tags = tagger(Algorithm::Crc32c, None, 512, 4).tags(0, &[0; 512]);
        assert_eq!(hex(&tags), "c740e882");
    }

    #[test]
    fn the_multi_stream_hash_is_right_on_this_processor() {
        assert!(multi_stream_agrees());
    }

    #[test]
    fn a_run_has_the_tags_of_its_blocks() {
        let blocks: Vec<u8> = (0..150 * 1024).map(|i| (i ^ (i >> 9)) as u8).collect();
        for algorithm in Algorithm::ALL {
            let tagger = tagger(algorithm, None, 1024, 7);
            let one_by_one: Vec<u8> = (100..)
                .step_by(2)
                .zip(blocks.chunks(1024))
                .flat_map(|(sector, block)| tagger.tags(sector, block))
                .collect();
            assert_eq!(tagger.tags(100, &blocks), one_by_one, "{algorithm}");
        }
    }

    #[test]
    fn tags_are_cut_or_padded() {
        for algorithm in Algorithm::ALL {
            let size = algorithm.digest_size();
            let tag = |size| tagger(algorithm, None, 512, size).tags(5, &[1; 512]);
            let whole = tag(size);
            assert_eq!(tag(3), whole[..3]);
            assert_eq!(tag(100)[..whole.len()], whole);
            assert!(tag(100)[whole.len()..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn exactly_the_bad_blocks_are_named() {
        for algorithm in [Algorithm::Crc32c, Algorithm::HmacSha256] {
            let tagger = tagger(algorithm, None, 512, 4);
            let mut blocks = vec![0; 20 * 512];
            let tags = tagger.tags(40, &blocks);
            assert_eq!(tagger.mismatches(40, &blocks, &tags), []);
            blocks[3 * 512] = 1;
            blocks[9 * 512 + 511] = 1;
            let bad = tagger.mismatches(40, &blocks, &tags);
            let sectors: Vec<u64> = bad.iter().map(|block| block.sector).collect();
            assert_eq!(sectors, [43, 49]);
            // The tag that would make the changed data pass must not be logged.
            let is_secret = bad[0].actual == Tag::Secret;
            assert_eq!(is_secret, algorithm.is_keyed());
        }
    }

    #[test]
    fn keys_are_for_keyed_algorithms() {
        for algorithm in Algorithm::ALL {
            for key in [None, Some(Key::new(vec![1]).unwrap())] {
                let integrity = Integrity {
                    algorithm,
                    key,
                    journal_mac: None,
                };
                let is_right = algorithm.is_keyed() == integrity.key.is_some();
                let result = Tagger::new(&integrity, &superblock());
                assert_eq!(result.is_ok(), is_right);
            }
        }
    }
}
