use std::{io, num::NonZeroUsize, ops::ControlFlow};

use verimount_source::{Progress, ReadAt, ReadError, Scratch, in_order};

use crate::{
    BlockHasher, Descriptor, Digest, Error, TreeGeometry, TreeParams, descriptor::checked_geometry,
    params::Hashing,
};

/// How much data a thread reads and hashes at a time: small enough to stay in the processor's cache
/// between the two, large enough that the fixed cost of a request does not matter.
const CHUNK: usize = 256 * 1024;

/// Where the blocks of a tree go while it is built.
///
/// A level's blocks come in order, but levels interleave: each block comes with its offset in the
/// stored tree, in bytes.
pub trait TreeSink {
    /// Stores a block.
    ///
    /// # Errors
    /// Those of storing it; they end the build.
    fn put(&mut self, offset: u64, block: &[u8]) -> io::Result<()>;
}

/// Discards the tree, if only the digest is needed.
impl TreeSink for () {
    fn put(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Builds the Merkle tree over `data`, with up to `threads` threads, and returns its descriptor.
///
/// The number of threads bounds the memory, not the size of the data: a block is stored as soon as
/// it is full. `progress` is called from time to time, and can cancel the build.
///
/// # Errors
/// [`Error::Source`], [`Error::Write`], [`Error::TooLarge`] or [`Error::Cancelled`].
pub fn build_tree(
    data: &dyn ReadAt,
    params: &TreeParams,
    threads: NonZeroUsize,
    sink: &mut dyn TreeSink,
    progress: &mut Progress<'_>,
) -> Result<Descriptor, Error> {
    let geometry = checked_geometry(params, data.size())?;
    let root = build_levels(data, &params.hashing(), &geometry, threads, sink, progress)?;
    Ok(Descriptor {
        params: params.clone(),
        geometry,
        root,
    })
}

/// Builds the levels of the tree over `data`, and returns the root hash.
pub(crate) fn build_levels(
    data: &dyn ReadAt,
    hashing: &Hashing,
    geometry: &TreeGeometry,
    threads: NonZeroUsize,
    sink: &mut dyn TreeSink,
    progress: &mut Progress<'_>,
) -> Result<Digest, Error> {
    let hasher = hashing.data_hasher();
    let mut assembler = Assembler::new(geometry, hashing.tree_hasher(), sink);
    in_order(
        data.size().div_ceil(CHUNK as u64),
        threads,
        |chunk, scratch| hash_chunk(data, &hasher, chunk, scratch),
        |chunk, digests| {
            assembler.push(0, &digests?)?;
            match progress(chunk_len(data.size(), chunk) as u64) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Cancelled),
            }
        },
    )?;
    assembler.finish()
}

fn chunk_len(size: u64, chunk: u64) -> usize {
    (size - chunk * CHUNK as u64).min(CHUNK as u64) as usize
}

/// The digests of the blocks of a chunk.
fn hash_chunk(
    data: &dyn ReadAt,
    hasher: &BlockHasher,
    chunk: u64,
    scratch: &mut Scratch,
) -> Result<Vec<u8>, ReadError> {
    let len = chunk_len(data.size(), chunk);
    let buffer = scratch.grown(len.next_multiple_of(hasher.block_size()));
    let (stored, padding) = buffer.split_at_mut(len);
    data.read_exact_at(stored, chunk * CHUNK as u64)?;
    padding.fill(0);
    Ok(hasher.digests(buffer))
}

/// Collects digests into blocks; stores full blocks and passes their digests to the next level.
struct Assembler<'a> {
    geometry: &'a TreeGeometry,
    hasher: BlockHasher,
    sink: &'a mut dyn TreeSink,
    /// The block that each level is filling, and one above the topmost level for the root hash.
    filling: Vec<Vec<u8>>,
    stored: Vec<u64>,
}

impl<'a> Assembler<'a> {
    fn new(geometry: &'a TreeGeometry, hasher: BlockHasher, sink: &'a mut dyn TreeSink) -> Self {
        Self {
            geometry,
            hasher,
            sink,
            filling: vec![Vec::new(); geometry.levels() + 1],
            stored: vec![0; geometry.levels()],
        }
    }

    fn push(&mut self, level: usize, mut digests: &[u8]) -> Result<(), Error> {
        if level == self.geometry.levels() {
            self.filling[level].extend(digests);
            return Ok(());
        }
        while !digests.is_empty() {
            let room = self.hasher.block_size() - self.filling[level].len();
            let (now, later) = digests.split_at(room.min(digests.len()));
            self.filling[level].extend(now);
            digests = later;
            if self.filling[level].len() == self.hasher.block_size() {
                self.store(level)?;
            }
        }
        Ok(())
    }

    /// Stores the block that `level` is filling, padded with zeros.
    fn store(&mut self, level: usize) -> Result<(), Error> {
        debug_assert!(self.stored[level] < self.geometry.level_blocks(level));
        let mut block = std::mem::take(&mut self.filling[level]);
        block.resize(self.hasher.block_size(), 0);
        let offset = self.geometry.node_offset(level, self.stored[level]);
        self.sink.put(offset, &block).map_err(Error::Write)?;
        self.stored[level] += 1;
        let digest = self.hasher.digests(&block);
        block.clear();
        self.filling[level] = block;
        self.push(level + 1, &digest)
    }

    /// Stores the partly filled blocks, lowest level first; returns the root hash.
    fn finish(mut self) -> Result<Digest, Error> {
        for level in 0..self.geometry.levels() {
            if !self.filling[level].is_empty() {
                self.store(level)?;
            }
            debug_assert_eq!(self.stored[level], self.geometry.level_blocks(level));
        }
        let algorithm = self.hasher.algorithm();
        // An empty file has no block, and so no digest reached the top.
        let root = &self.filling[self.geometry.levels()];
        debug_assert_eq!(root.is_empty(), self.geometry.data_size() == 0);
        debug_assert!(root.len() <= algorithm.digest_size(), "there is one root");
        Ok(Digest::new(algorithm, root).unwrap_or(Digest::zero(algorithm)))
    }
}

#[cfg(test)]
mod tests {
    use verimount_testkit::cases;

    use super::*;
    use crate::{BlockSize, HashAlgorithm, Salt};

    fn digest(data: Vec<u8>, threads: usize) -> String {
        let threads = NonZeroUsize::new(threads).unwrap();
        let params = TreeParams::default();
        let built = build_tree(&data, &params, threads, &mut (), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        built.file_digest().to_string()
    }

    /// The test data of the kernel's fs-verity tests.
    fn pattern(len: usize) -> Vec<u8> {
        (0..len)
            .map(|i| ((i % 11) + (i % 439) + (i % 1103)) as u8)
            .collect()
    }

    #[test]
    fn known_digests() {
        assert_eq!(
            digest(Vec::new(), 1),
            "sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95"
        );
        for threads in [1, 2, 3, 8] {
            assert!(digest(pattern(1_000_000), threads).starts_with("sha256:48df0c46"));
        }
    }

    #[test]
    fn a_failing_source_ends_the_build() {
        struct Broken;
        impl ReadAt for Broken {
            fn size(&self) -> u64 {
                10 * CHUNK as u64
            }
            fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
                if offset >= 3 * CHUNK as u64 {
                    let len = buf.len();
                    return Err(ReadError::Truncated { offset, len });
                }
                buf.fill(0);
                Ok(())
            }
        }
        for threads in 1..5 {
            let threads = NonZeroUsize::new(threads).unwrap();
            let params = TreeParams::default();
            let built = build_tree(&Broken, &params, threads, &mut (), &mut |_| {
                ControlFlow::Continue(())
            });
            assert!(matches!(
                built,
                Err(Error::Source(ReadError::Truncated { .. }))
            ));
        }
    }

    /// The tree by its definition, all in memory: each level as one buffer, topmost first.
    fn plain_tree(data: &[u8], params: &TreeParams) -> (Vec<u8>, Vec<u8>) {
        use sha2::Digest as _;
        let salt = params.hashing().prefix;
        let block_size = params.block_size.bytes();
        let hash_blocks = |bytes: &[u8]| -> Vec<u8> {
            bytes
                .chunks(block_size)
                .flat_map(|block| {
                    let mut message = salt.clone();
                    message.extend(block);
                    message.resize(salt.len() + block_size, 0);
                    match params.algorithm {
                        HashAlgorithm::Sha256 => sha2::Sha256::digest(&message).to_vec(),
                        HashAlgorithm::Sha512 => sha2::Sha512::digest(&message).to_vec(),
                    }
                })
                .collect()
        };
        let mut tree = Vec::new();
        let mut digests = hash_blocks(data);
        while digests.len() > params.algorithm.digest_size() {
            digests.resize(digests.len().next_multiple_of(block_size), 0);
            tree.splice(0..0, digests.iter().copied());
            digests = hash_blocks(&digests);
        }
        (tree, digests)
    }

    struct Collected(Vec<u8>);

    impl TreeSink for Collected {
        fn put(&mut self, offset: u64, block: &[u8]) -> io::Result<()> {
            let end = offset as usize + block.len();
            if self.0.len() < end {
                self.0.resize(end, 0xee);
            }
            self.0[offset as usize..end].copy_from_slice(block);
            Ok(())
        }
    }

    #[test]
    fn the_tree_is_the_defined_one() {
        cases(256, 64, |u| {
            let salt: [u8; 5] = u.arbitrary()?;
            let salt: &[u8] = if u.arbitrary()? { &salt } else { &[] };
            let params = TreeParams {
                algorithm: if u.arbitrary()? {
                    HashAlgorithm::Sha512
                } else {
                    HashAlgorithm::Sha256
                },
                block_size: BlockSize::from_log2(u.int_in_range(10..=14)?).unwrap(),
                salt: Salt::new(salt).unwrap(),
            };
            let data = pattern(u.int_in_range(1..=299_999)?);
            let threads = NonZeroUsize::new(u.int_in_range(1..=3)?).unwrap();
            let mut tree = Collected(Vec::new());
            let built = build_tree(&data, &params, threads, &mut tree, &mut |_| {
                ControlFlow::Continue(())
            })
            .unwrap();
            let (expected, root) = plain_tree(&data, &params);
            assert_eq!(tree.0, expected);
            assert_eq!(built.root().as_bytes(), root);
            Ok(())
        });
    }
}
