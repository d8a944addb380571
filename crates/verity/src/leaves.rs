use std::{fmt, ops::Range, sync::Arc};

use verimount_source::{Fetch, ReadAt, ReadError, Unchecked};

use crate::{HashAlgorithm, TreeGeometry, params::Hashing};

/// What makes the digest of a data block from its bytes: hash, block size, and what is hashed before each block. Where it is
/// the same, equal blocks have equal digests, in trees of either format. A short last block is extended by zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafFunction(Hashing);

impl LeafFunction {
    pub(crate) fn new(hashing: Hashing) -> Self {
        // The size of tree blocks decides where a digest is, not what it is.
        let hash_block_log2 = hashing.data_block_log2;
        Self(Hashing {
            hash_block_log2,
            ..hashing
        })
    }

    /// The size of a data block in bytes.
    pub fn block_size(&self) -> usize {
        1 << self.0.data_block_log2
    }

    /// The size of a digest in bytes.
    pub fn digest_size(&self) -> usize {
        self.0.algorithm.digest_size()
    }

    /// The digests of a run of whole blocks, one after the other.
    pub fn digests(&self, blocks: &[u8]) -> Vec<u8> {
        self.0.data_hasher().hash_run(blocks)
    }

    /// The hash.
    pub fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm
    }
}

/// The digests of data blocks as a stored tree has them: nothing of it is verified, so what is compared with them is not,
/// either.
#[derive(Clone)]
pub struct Leaves {
    tree: Arc<dyn Fetch>,
    function: LeafFunction,
    /// Where the first digest is in the tree. The others follow without a gap, as their size divides that of blocks.
    start: u64,
    count: u64,
}

impl Leaves {
    pub(crate) fn new(tree: Arc<dyn Fetch>, hashing: Hashing, geometry: &TreeGeometry) -> Self {
        let (start, count) = match geometry.levels() {
            0 => (0, 0),
            _ => (geometry.node_offset(0, 0), geometry.data_blocks()),
        };
        Self {
            tree,
            function: LeafFunction::new(hashing),
            start,
            count,
        }
    }

    /// What they are made with.
    pub fn function(&self) -> &LeafFunction {
        &self.function
    }

    /// How many there are: one for each data block, and none for data of a single block, which has no tree.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The digests of some blocks, one after the other.
    ///
    /// # Errors
    /// Those of reading; [`ReadError::PastEnd`] for blocks that are not there.
    pub fn read(&self, blocks: Range<u64>) -> Result<Vec<u8>, ReadError> {
        let size = self.function.digest_size();
        let count = blocks.end.saturating_sub(blocks.start);
        if blocks.end > self.count {
            return Err(ReadError::PastEnd {
                offset: blocks.start,
                len: usize::try_from(count).unwrap_or(usize::MAX),
                size: self.count,
            });
        }
        let mut digests = vec![0; count as usize * size];
        let offset = self.start + blocks.start * size as u64;
        Unchecked(&*self.tree).read_exact_at(&mut digests, offset)?;
        Ok(digests)
    }
}

impl fmt::Debug for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaves")
            .field("function", &self.function)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}
