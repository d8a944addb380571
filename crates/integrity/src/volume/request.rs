use std::ops::Range;

use crate::{BlockSize, SECTOR};

/// A request for a byte range of a volume, and the whole blocks that it touches.
#[derive(Debug, Clone)]
pub(super) struct Request {
    bytes: Range<u64>,
    block: u64,
}

impl Request {
    /// A request for a non-empty range of bytes inside the volume.
    pub(super) fn new(bytes: Range<u64>, block_size: BlockSize) -> Self {
        let block = block_size.bytes() as u64;
        Self { bytes, block }
    }

    /// Whether it is for whole blocks.
    pub(super) fn is_aligned(&self) -> bool {
        self.bytes.start.is_multiple_of(self.block) && self.bytes.end.is_multiple_of(self.block)
    }

    /// Splits the range into whole blocks and edges.
    pub(super) fn split(&self) -> Split {
        let Range { start, end } = self.bytes;
        let first = start.next_multiple_of(self.block).min(end);
        let last = (end - end % self.block).max(first);
        debug_assert!(start <= first && first <= last && last <= end);
        // Without a whole block, the edges cover the whole range.
        let whole = if last > first {
            first / SECTOR..last / SECTOR
        } else {
            0..0
        };
        Split {
            whole,
            edges: [start..first, last..end],
        }
    }

    /// The sectors of the touched blocks.
    pub(super) fn sectors(&self) -> Range<u64> {
        self.start() / SECTOR..self.end() / SECTOR
    }

    /// The length of the touched blocks in bytes.
    pub(super) fn blocks_len(&self) -> usize {
        (self.end() - self.start()) as usize
    }

    /// The requested bytes, as a range within the touched blocks.
    pub(super) fn in_blocks(&self) -> Range<usize> {
        let start = (self.bytes.start - self.start()) as usize;
        start..start + (self.bytes.end - self.bytes.start) as usize
    }

    /// The byte ranges, within the touched blocks, of the blocks that are only partly requested.
    pub(super) fn partial_blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let block = self.block as usize;
        let len = self.blocks_len();
        let own = self.in_blocks();
        let first = (own.start > 0 || own.end < block).then_some(0..block);
        let last = (own.end < len && len > block).then(|| len - block..len);
        first.into_iter().chain(last)
    }

    fn start(&self) -> u64 {
        self.bytes.start - self.bytes.start % self.block
    }

    fn end(&self) -> u64 {
        // A volume is made of whole blocks, so this is inside it.
        self.bytes.end.next_multiple_of(self.block)
    }
}

/// A byte range split into whole blocks and edges.
#[derive(Debug, Clone)]
pub(super) struct Split {
    /// The sectors of the blocks that lie entirely inside.
    pub(super) whole: Range<u64>,
    /// The bytes before and after them, each less than a block.
    pub(super) edges: [Range<u64>; 2],
}
