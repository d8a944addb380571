//! How sparse files are stored: in chunks of one size, of which those without data are not stored.

use std::{iter, ops::Range};

use verimount_scan::FileData;

use crate::block_size::BlockSize;

/// The most bytes of a map whose chunks are as small as the holes want. Beyond, what takes least
/// space is chosen.
const MAX_EXACT_LEN: u64 = 16 << 20;

/// The most bytes that holes may take, in the map and as zeros, unless the data takes more. Otherwise an archive of some bytes
/// could become an image that fills a disk.
pub(super) const MAX_WASTE: u64 = 1 << 30;

/// Bytes of a record of the map: a block address.
pub(super) const RECORD: u64 = 4;

/// The largest chunk: what 5 bits say of its size.
const MAX_BITS: u32 = 31;

/// The chunks of a sparse file.
#[derive(Debug)]
pub(super) struct ChunkMap {
    /// The base-2 logarithm of a chunk's size in blocks.
    pub(super) bits: u32,
    /// Blocks of the file, with holes.
    blocks: u64,
    /// The ranges of blocks that have data, in order, not empty, apart from each other.
    stored: Vec<Range<u64>>,
}

/// The ranges of a file that are stored in the image.
pub(super) fn stored_ranges(file: &FileData, block: BlockSize) -> Vec<Range<u64>> {
    match ChunkMap::new(file, block) {
        Some(map) => map.stored_ranges(file.size(), block).collect(),
        None => iter::once(0..file.size()).collect(),
    }
}

impl ChunkMap {
    /// The chunks of a file; `None` if it has no hole of a whole block. In a file of less than a block,
    /// holes save nothing, and are often lost when it is copied.
    pub(super) fn new(file: &FileData, block: BlockSize) -> Option<Self> {
        let ranges = file.stored.as_deref()?;
        if file.size() < block.bytes() {
            return None;
        }
        let blocks = block.blocks_for(file.size());
        let mut stored: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            let range = (range.start >> block.bits())..block.blocks_for(range.end);
            match stored.last_mut() {
                Some(last) if range.start <= last.end => last.end = range.end,
                _ => stored.push(range),
            }
        }
        if stored.first().is_some_and(|first| *first == (0..blocks)) {
            return None;
        }
        let mut map = Self {
            bits: 0,
            blocks,
            stored,
        };
        map.bits = map.best_bits(block);
        Some(map)
    }

    /// Number of chunks.
    pub(super) fn count(&self) -> u64 {
        self.count_with(self.bits)
    }

    /// Bytes of the map.
    pub(super) fn len(&self) -> u64 {
        self.count() * RECORD
    }

    /// The ranges of chunks that are stored, in order, not empty, apart from each other.
    pub(super) fn stored_chunks(&self) -> impl Iterator<Item = Range<u64>> {
        self.stored_with(self.bits)
    }

    /// The blocks of a range of chunks; the last chunk ends where the file does.
    pub(super) fn blocks_of(&self, chunks: &Range<u64>) -> Range<u64> {
        (chunks.start << self.bits)..(chunks.end << self.bits).min(self.blocks)
    }

    /// The bytes that are stored of a file of this size, in order.
    pub(super) fn stored_ranges(
        &self,
        size: u64,
        block: BlockSize,
    ) -> impl Iterator<Item = Range<u64>> {
        let blocks = self.stored_chunks().map(|chunks| self.blocks_of(&chunks));
        blocks
            .map(move |blocks| blocks.start * block.bytes()..(blocks.end * block.bytes()).min(size))
    }

    /// Number of blocks that are stored.
    pub(super) fn stored_blocks(&self) -> u64 {
        self.stored_blocks_with(self.bits)
    }

    /// Whether its holes take more than [`MAX_WASTE`], and more than its data.
    pub(super) fn is_wasteful(&self, block: BlockSize) -> bool {
        let data = self.stored_blocks_with(0) * block.bytes();
        let zeros = self.stored_blocks() * block.bytes() - data;
        self.len() + zeros > MAX_WASTE.max(data)
    }

    /// The largest chunks that end where data and holes do, unless their map is large and others take less
    /// space.
    fn best_bits(&self, block: BlockSize) -> u32 {
        // One chunk for all of it.
        let largest = self
            .blocks
            .next_power_of_two()
            .trailing_zeros()
            .min(MAX_BITS);
        let bounds = self
            .stored
            .iter()
            .flat_map(|range| [range.start, range.end]);
        let inside = bounds.filter(|bound| *bound < self.blocks);
        // Zero has 64 zeros at its end.
        let exact = inside.map(u64::trailing_zeros).min();
        let exact = exact.unwrap_or(u64::BITS).min(largest);
        if self.count_with(exact) * RECORD <= MAX_EXACT_LEN {
            return exact;
        }
        let space = |bits: &u32| {
            self.count_with(*bits) * RECORD + self.stored_blocks_with(*bits) * block.bytes()
        };
        (exact..=largest).min_by_key(space).unwrap_or(exact)
    }

    fn count_with(&self, bits: u32) -> u64 {
        self.blocks.div_ceil(1 << bits)
    }

    fn stored_with(&self, bits: u32) -> impl Iterator<Item = Range<u64>> {
        let mut ranges = self.stored.iter().map(move |range| {
            let end = range.end.div_ceil(1 << bits);
            (range.start >> bits)..end
        });
        let mut next = ranges.next();
        iter::from_fn(move || {
            let mut chunks = next.take()?;
            for range in ranges.by_ref() {
                if range.start > chunks.end {
                    next = Some(range);
                    break;
                }
                chunks.end = chunks.end.max(range.end);
            }
            Some(chunks)
        })
    }

    fn stored_blocks_with(&self, bits: u32) -> u64 {
        let chunks = self.stored_with(bits);
        chunks
            .map(|chunks| (chunks.end << bits).min(self.blocks) - (chunks.start << bits))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(blocks: u64, stored: &[(u64, u64)]) -> ChunkMap {
        let mut map = ChunkMap {
            bits: 0,
            blocks,
            stored: stored.iter().map(|(start, end)| *start..*end).collect(),
        };
        map.bits = map.best_bits(BlockSize::from_bits(12).unwrap());
        map
    }

    #[test]
    fn chunks_end_where_holes_do() {
        for (blocks, stored, bits, count, stored_blocks) in [
            (64, &[(8, 16), (32, 48)][..], 3, 8, 24),
            (64, &[(8, 16), (33, 34)], 0, 64, 9),
            (65, &[(0, 64)], 6, 2, 64),
            // The end of the file is no bound.
            (65, &[(64, 65)], 6, 2, 1),
            (1, &[], 0, 1, 0),
            (1000, &[], 10, 1, 0),
        ] {
            let map = map(blocks, stored);
            assert_eq!(
                (map.bits, map.count()),
                (bits, count),
                "{blocks} {stored:?}"
            );
            assert_eq!(map.stored_blocks(), stored_blocks);
            let blocks: Vec<_> = map
                .stored_chunks()
                .map(|chunks| map.blocks_of(&chunks))
                .map(|blocks| (blocks.start, blocks.end))
                .collect();
            assert_eq!(blocks, stored);
        }
    }

    #[test]
    fn a_large_map_is_made_of_larger_chunks() {
        // A block in the middle of 4 TiB.
        let map = map(1 << 30, &[(12_345_677, 12_345_678)]);
        assert!(map.len() + map.stored_blocks() * 4096 < 16 << 20, "{map:?}");
        assert_eq!(map.stored_chunks().count(), 1);
        // Every second block: larger chunks would store everything.
        let every_second: Vec<_> = (0..1 << 22)
            .map(|number| (2 * number, 2 * number + 1))
            .collect();
        let map = self::map(1 << 23, &every_second);
        assert_eq!((map.bits, map.stored_blocks()), (0, 1 << 22));
    }

    #[test]
    fn holes_may_take_a_gib_or_as_much_as_the_data() {
        let is_wasteful = |map: ChunkMap| map.is_wasteful(BlockSize::from_bits(12).unwrap());
        // Of 2⁴⁴ blocks with one that has data, the map and the zeros take 512 MiB each.
        assert!(!is_wasteful(map(1 << 44, &[(5, 6)])));
        assert!(is_wasteful(map(1 << 45, &[(5, 6)])));
        assert!(!is_wasteful(map((1 << 51) - 1, &[])));
        // The map takes 2 GiB, and the data 1 or 2 GiB.
        let many = |len| {
            let ranges = (0..1 << 18).map(|number| (2048 * number + 1, 2048 * number + 1 + len));
            map(1 << 29, &Vec::from_iter(ranges))
        };
        assert!(is_wasteful(many(1)));
        assert!(!is_wasteful(many(2)));
    }

    /// Its holes take 12 GiB, which is refused.
    #[test]
    fn the_longest_file_has_a_map() {
        let map = map((1 << 51) - 1, &[(5, 6)]);
        let space = map.len() + map.stored_blocks() * 4096;
        assert!(map.bits <= MAX_BITS && space < 16 << 30, "{map:?}");
        assert!(map.is_wasteful(BlockSize::from_bits(12).unwrap()));
    }
}
