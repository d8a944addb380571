use std::ops::Range;

use crate::{BlockSize, SECTOR};

/// A request for some bytes of a volume, and the whole blocks that it touches.
#[derive(Debug, Clone)]
pub(super) struct Request {
    bytes: Range<u64>,
    block: u64,
}

impl Request {
    /// A request for these bytes, at least one, which are inside the volume.
    pub(super) fn new(bytes: Range<u64>, block_size: BlockSize) -> Self {
        let block = block_size.bytes() as u64;
        Self { bytes, block }
    }

    /// Whether it is for whole blocks.
    pub(super) fn is_aligned(&self) -> bool {
        self.bytes.start.is_multiple_of(self.block) && self.bytes.end.is_multiple_of(self.block)
    }

    /// Its whole blocks, apart from the rest.
    pub(super) fn split(&self) -> Split {
        let Range { start, end } = self.bytes;
        let first = start.next_multiple_of(self.block).min(end);
        let last = (end - end % self.block).max(first);
        // Without a whole block, all of it is the first edge or the last.
        let whole = match last > first {
            true => first / SECTOR..last / SECTOR,
            false => 0..0,
        };
        Split {
            whole,
            edges: [start..first, last..end],
        }
    }

    /// The sectors of the blocks.
    pub(super) fn sectors(&self) -> Range<u64> {
        self.start() / SECTOR..self.end() / SECTOR
    }

    /// The length of the blocks in bytes.
    pub(super) fn blocks_len(&self) -> usize {
        (self.end() - self.start()) as usize
    }

    /// The bytes of the blocks that the request is for.
    pub(super) fn in_blocks(&self) -> Range<usize> {
        let start = (self.bytes.start - self.start()) as usize;
        start..start + (self.bytes.end - self.bytes.start) as usize
    }

    /// The bytes of those of the blocks that the request is for a part of.
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

/// A range of bytes, with its whole blocks apart from the rest.
#[derive(Debug, Clone)]
pub(super) struct Split {
    /// The sectors of the blocks that are wholly inside.
    pub(super) whole: Range<u64>,
    /// The bytes before and behind them, each less than a block.
    pub(super) edges: [Range<u64>; 2],
}
