//! Assigns places in the metadata, which begins with the superblock.

use std::collections::VecDeque;

use crate::{block_size::BlockSize, raw::INODE_SLOT};

/// The most unfilled blocks that are kept open: enough to waste little, few enough that neighbours stay near
/// each other.
const MAX_GAPS: usize = 32;

/// The metadata so far.
///
/// What fits into a block is never placed across two, so that it can be read at once, and the end of a
/// file or directory behind its inode never crosses a block. The rest of a block is a gap that
/// something smaller may fill.
#[derive(Debug)]
pub(super) struct MetadataSpace {
    block: BlockSize,
    /// Where unused blocks begin, in bytes.
    pub(super) end: u64,
    /// The unused ends of used blocks, in the order in which the blocks were used first.
    gaps: VecDeque<Gap>,
}

/// An unused range of a block.
#[derive(Debug, Clone, Copy)]
struct Gap {
    at: u64,
    end: u64,
}

impl Gap {
    fn len(self) -> u64 {
        self.end - self.at
    }
}

impl MetadataSpace {
    /// With the superblock alone, up to this offset.
    pub(super) fn new(block: BlockSize, superblock_end: u64) -> Self {
        let superblock_end = superblock_end.next_multiple_of(INODE_SLOT);
        let mut space = Self {
            block,
            end: superblock_end.next_multiple_of(block.bytes()),
            gaps: VecDeque::new(),
        };
        space.open(superblock_end);
        space
    }

    /// Leaves the unfilled blocks as they are: what follows begins with a block.
    pub(super) fn close(&mut self) {
        self.gaps.clear();
    }

    /// The place of `count` whole blocks, in bytes.
    pub(super) fn blocks(&mut self, count: u64) -> u64 {
        let at = self.end;
        self.end += count * self.block.bytes();
        at
    }

    /// The place of an inode, with all that follows it, in bytes.
    pub(super) fn inode(&mut self, len: u64) -> u64 {
        let len = len.next_multiple_of(INODE_SLOT);
        let fitting = self
            .gaps
            .iter()
            .enumerate()
            .filter(|(_, gap)| gap.len() >= len);
        // The one that is filled best; of several the first.
        let best = fitting
            .min_by_key(|(_, gap)| gap.len())
            .map(|(index, _)| index);
        if let Some(gap) = best.and_then(|index| self.gaps.get_mut(index)) {
            let at = gap.at;
            gap.at += len;
            self.gaps.retain(|gap| gap.len() > 0);
            return at;
        }
        let at = self.blocks(self.block.blocks_for(len));
        self.open(at + len);
        at
    }

    /// Makes what follows in the last used block a gap.
    fn open(&mut self, at: u64) {
        if at == self.end {
            return;
        }
        if self.gaps.len() == MAX_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(Gap { at, end: self.end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> MetadataSpace {
        MetadataSpace::new(BlockSize::from_bits(12).unwrap(), 1024 + 128)
    }

    #[test]
    fn gaps_are_filled_best_first() {
        let mut space = space();
        assert_eq!(space.inode(64), 1152);
        // More than is left of the first block.
        assert_eq!(space.inode(4000), 4096);
        assert_eq!(space.inode(96), 4096 + 4000);
        assert_eq!(space.inode(3000), 2 * 4096);
        assert_eq!(space.blocks(2), 3 * 4096);
        // The gap of the first block is larger than that of the third.
        assert_eq!(space.inode(1000), 2 * 4096 + 3008);
        assert_eq!(space.inode(33), 2 * 4096 + 3008 + 1024);
        assert_eq!(space.inode(33), 1152 + 64);
        assert_eq!(space.end, 5 * 4096);
    }

    #[test]
    fn what_is_larger_than_a_block_is_contiguous() {
        let mut space = space();
        assert_eq!(space.inode(10_000), 4096);
        assert_eq!(space.end, 4 * 4096);
        assert_eq!(space.inode(2272), 4096 + 10_016);
    }

    #[test]
    fn only_some_gaps_are_kept() {
        let mut space = space();
        for number in 1..=MAX_GAPS as u64 {
            assert_eq!(space.inode(4000), number * 4096);
        }
        // That of the first block is forgotten; the others are there.
        assert_eq!(space.inode(64), 4096 + 4000);
        assert_eq!(space.inode(200), (MAX_GAPS as u64 + 1) * 4096);
    }
}
