use std::ops::Range;

use crate::{BlockKind, HashAlgorithm, params::Hashing};

/// The shape of a Merkle tree: how many blocks each level has and where they are stored.
///
/// Level 0 holds the digests of the data blocks, each higher level those of the level below. The
/// topmost level is a single block, whose digest is the root hash. In storage, the topmost level
/// comes first. Data of one block or none has no levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeGeometry {
    data_block_log2: u8,
    hash_block_log2: u8,
    digest_size: usize,
    data_size: u64,
    /// Indexed by level number.
    levels: Vec<Level>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    /// Offset in the stored tree, in blocks.
    start: u64,
    blocks: u64,
}

impl TreeGeometry {
    /// The tree's shape for `data_size` bytes of data; `None` for more than [`MAX_DATA_SIZE`].
    pub(crate) fn new(hashing: &Hashing, data_size: u64) -> Option<Self> {
        if data_size > MAX_DATA_SIZE {
            return None;
        }
        let digest_size = hashing.algorithm.digest_size();
        let digests_per_block = (1 << hashing.hash_block_log2) / digest_size as u64;

        let mut sizes = Vec::new();
        let mut blocks = data_size.div_ceil(1 << hashing.data_block_log2);
        while blocks > 1 {
            blocks = blocks.div_ceil(digests_per_block);
            sizes.push(blocks);
        }
        let mut start = 0;
        let mut levels: Vec<Level> = sizes
            .iter()
            .rev()
            .map(|&blocks| {
                let level = Level { start, blocks };
                start += blocks;
                level
            })
            .collect();
        levels.reverse();
        Some(Self {
            data_block_log2: hashing.data_block_log2,
            hash_block_log2: hashing.hash_block_log2,
            digest_size,
            data_size,
            levels,
        })
    }

    /// Number of bytes of data.
    pub fn data_size(&self) -> u64 {
        self.data_size
    }

    /// Number of data blocks; the last may be short.
    pub fn data_blocks(&self) -> u64 {
        self.data_size.div_ceil(1 << self.data_block_log2)
    }

    /// Number of levels.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Size of the stored tree in bytes.
    pub fn tree_size(&self) -> u64 {
        self.levels.iter().map(|level| level.blocks).sum::<u64>() << self.hash_block_log2
    }

    /// Number of blocks in `level`.
    pub fn level_blocks(&self, level: usize) -> u64 {
        self.levels[level].blocks
    }

    /// Offset in the stored tree, in bytes, of block `index` of `level`.
    pub fn node_offset(&self, level: usize, index: u64) -> u64 {
        (self.levels[level].start + index) << self.hash_block_log2
    }

    /// The block that is at `offset` in the data or in the stored tree, by its number in the data or in its level; `None` if
    /// none begins there.
    pub(crate) fn block_at(&self, place: BlockKind, offset: u64) -> Option<u64> {
        let (log2, start, blocks) = match place {
            BlockKind::Data => (self.data_block_log2, 0, self.data_blocks()),
            BlockKind::Tree(level) => {
                let level = self.levels.get(level)?;
                (self.hash_block_log2, level.start, level.blocks)
            }
        };
        let block = (offset >> log2).checked_sub(start)?;
        let is_one = block < blocks && (start + block) << log2 == offset;
        is_one.then_some(block)
    }

    /// How many digests a block of the tree holds.
    pub fn digests_per_block(&self) -> u64 {
        ((1 << self.hash_block_log2) / self.digest_size) as u64
    }

    /// The parent of block `index`, one level above it (level 0, for a data block), and the range
    /// of the digest in the parent.
    pub(crate) fn parent(&self, index: u64) -> (u64, Range<usize>) {
        let start = (index % self.digests_per_block()) as usize * self.digest_size;
        (
            index / self.digests_per_block(),
            start..start + self.digest_size,
        )
    }

    /// The bytes of data that block `index` of `level` covers.
    pub fn covered_data(&self, level: usize, index: u64) -> Range<u64> {
        let blocks_each = u128::from(self.digests_per_block()).pow(level as u32 + 1);
        let byte = |node: u64| {
            let byte = (u128::from(node) * blocks_each) << self.data_block_log2;
            byte.min(u128::from(self.data_size)) as u64
        };
        byte(index)..byte(index + 1)
    }

    /// The bytes of data in the data block `index`.
    pub fn data_block(&self, index: u64) -> Range<u64> {
        let start = index << self.data_block_log2;
        start..self.data_size.min(start + (1 << self.data_block_log2))
    }
}

/// The largest data size whose blocks can be counted and addressed without overflow; the kernel's
/// own limit on a file's size.
pub(crate) const MAX_DATA_SIZE: u64 = i64::MAX as u64 - (1 << 20);

/// The digest size divides every block size. All arithmetic here relies on this.
const _: () = assert!(512 % HashAlgorithm::Sha512.digest_size() == 0);

#[cfg(test)]
mod tests {
    use arbtest::arbtest;

    use super::*;

    fn geometry(data_log2: u8, hash_log2: u8, size: u64) -> Option<TreeGeometry> {
        let hashing = Hashing {
            algorithm: HashAlgorithm::Sha256,
            data_block_log2: data_log2,
            hash_block_log2: hash_log2,
            prefix: Vec::new(),
        };
        TreeGeometry::new(&hashing, size)
    }

    #[test]
    fn sizes_around_the_edges_of_levels() {
        let blocks = |size| {
            let tree = geometry(12, 12, size).unwrap();
            (0..tree.levels())
                .map(|level| tree.level_blocks(level))
                .collect::<Vec<_>>()
        };
        assert!(blocks(0).is_empty());
        assert!(blocks(1).is_empty());
        assert!(blocks(4096).is_empty());
        assert_eq!(blocks(4097), [1]);
        assert_eq!(blocks(128 * 4096), [1]);
        assert_eq!(blocks(128 * 4096 + 1), [2, 1]);
        assert_eq!(blocks(128 * 128 * 4096), [128, 1]);
        assert_eq!(blocks(128 * 128 * 4096 + 1), [129, 2, 1]);
    }

    #[test]
    fn too_large_data_is_refused() {
        assert!(geometry(9, 9, MAX_DATA_SIZE).is_some());
        assert!(geometry(9, 9, MAX_DATA_SIZE + 1).is_none());
    }

    #[test]
    fn every_level_is_stored_once_and_covers_the_data() {
        arbtest(|u| {
            let (data_log2, hash_log2) = (u.int_in_range(9..=16)?, u.int_in_range(9..=16)?);
            let size = u.int_in_range(0..=(1 << 40) - 1)?;
            let tree = geometry(data_log2, hash_log2, size).unwrap();
            let mut end = tree.tree_size();
            for level in 0..tree.levels() {
                let blocks = tree.level_blocks(level);
                assert_eq!(tree.node_offset(level, blocks), end);
                end = tree.node_offset(level, 0);
                assert_eq!(tree.covered_data(level, blocks - 1).end, size);
                assert_eq!(tree.covered_data(level, 0).start, 0);
                let below = match level {
                    0 => tree.data_blocks(),
                    _ => tree.level_blocks(level - 1),
                };
                assert_eq!(tree.parent(below - 1).0, blocks - 1);
            }
            assert_eq!(end, 0);
            Ok(())
        })
        .size_max(32);
    }
}
