//! The compact index of a compressed file: what `crate::compressed` reads.

use std::mem;

use zerocopy::IntoBytes;

use super::piece::{Data, Extent};
use crate::{
    block_size::BlockSize,
    compressed::{MIN_VALUE_BITS, PackKind, Packs},
    raw::{INODE_SLOT, MapHeader, advice, cluster_type},
    space::Address,
};

/// What the index is aligned to behind an inode, in bytes.
const ALIGNMENT: u64 = 8;

/// Bytes of the header.
const HEADER: u64 = size_of::<MapHeader>() as u64;

/// The block size with which sixteen entries share a pack: in others the kernel does not read such packs.
const LONG_PACK_BLOCK_BITS: u8 = 12;

/// The largest blocks: an entry of a short pack has no room for an offset in larger ones.
pub(in crate::writer) const MAX_BLOCK_BITS: u8 = 14;

/// How much room an index takes, and where in it the packs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::writer) struct Geometry {
    /// Bytes of the file.
    size: u64,
    /// Where the index begins, in bytes behind the beginning of the inode.
    pub(in crate::writer) at: u64,
    /// Entries: blocks of the file.
    pub(in crate::writer) entries: u64,
    packs: Packs,
    value_bits: u8,
}

/// Bytes at the end of a pack, for the number of a block.
const BASE: usize = 4;

impl Geometry {
    /// The index of a file of `size` bytes, behind `behind` bytes of its inode.
    pub(in crate::writer) fn new(size: u64, behind: u64, block: BlockSize) -> Self {
        let at = behind.next_multiple_of(ALIGNMENT);
        let entries = block.blocks_for(size);
        // Inodes begin at multiples of the length of long packs, so it does not matter where this one does.
        let begin = Address::in_image(at + HEADER);
        Self {
            size,
            at,
            entries,
            packs: Packs::new(begin, entries, block.bits() == LONG_PACK_BLOCK_BITS),
            value_bits: block.bits().max(MIN_VALUE_BITS),
        }
    }

    /// Bytes of the index.
    pub(in crate::writer) fn len(&self) -> u64 {
        let last = self.entries.checked_sub(1);
        let last = last.and_then(|last| self.packs.place(last));
        last.map_or(HEADER, |last| last.pack.at + last.kind.len - self.at)
    }

    /// Where packs begin in the units of inodes' places. Two files of equal content have equal indexes if this is the same.
    pub(in crate::writer) fn alignment(&self) -> u64 {
        (self.at + HEADER) % INODE_SLOT
    }

    /// The pack that begins with this entry.
    fn pack(&self, entry: u64) -> PackKind {
        let place = self.packs.place(entry);
        place.map_or(PackKind::SHORT, |place| place.kind)
    }
}

/// Makes the bytes of an index, extent by extent.
#[derive(Debug)]
pub(super) struct Encoder {
    geometry: Geometry,
    block: BlockSize,
    /// Whether clusters may have several blocks.
    is_big: bool,
    /// What has been made and not been taken yet.
    bytes: Vec<u8>,
    /// Types and values of the entries in the pack that is being made.
    pack: Vec<(u16, u16)>,
    /// What the blocks of the pack's extents are counted from.
    base: u64,
    /// What the blocks of a pack's extents would be counted from if it began here.
    next_base: u64,
    /// How many entries there are.
    entries: u64,
    /// Where the next extent begins in the file.
    at: u64,
}

impl Encoder {
    /// An index of a file whose data begins with this block of the image.
    pub(super) fn new(
        geometry: Geometry,
        first_block: u64,
        algorithm: u8,
        is_big: bool,
        block: BlockSize,
    ) -> Self {
        let mut advised = 0;
        if geometry.packs.has_long() {
            advised |= advice::TWO_BYTES;
        }
        if is_big {
            advised |= advice::BIG_FIRST | advice::BIG_SECOND;
        }
        let header = MapHeader {
            detail: 0.into(),
            advice: advised.into(),
            algorithms: algorithm,
            cluster_bits: 0,
        };
        Self {
            geometry,
            block,
            is_big,
            bytes: header.as_bytes().to_vec(),
            pack: Vec::with_capacity(PackKind::LONG.entries),
            base: first_block,
            next_base: first_block,
            entries: 0,
            at: 0,
        }
    }

    /// Adds an extent, whose data follows that of the one before.
    ///
    /// It has an entry for the block of the file that it begins in, and one for each that follows, up to where the
    /// next extent begins. The end of a file in a block that none begins in counts as a beginning: otherwise, the kernel
    /// takes the last extent for longer than it is.
    pub(super) fn push(&mut self, extent: Extent) {
        let offset = self.block.offset_in_block(self.at);
        let first = self.at >> self.block.bits();
        self.at += u64::from(extent.len);
        let next = self.at >> self.block.bits();
        let kind = match extent.data {
            Data::Plain => cluster_type::PLAIN,
            Data::Compressed(_) => cluster_type::FIRST,
        };
        self.entry(kind, offset);
        let blocks = u64::from(extent.blocks());
        let is_counted_behind = self.is_big && next > first + 1;
        if !is_counted_behind {
            self.next_base += blocks;
        }
        for number in first + 1..next {
            if is_counted_behind && number == first + 1 {
                self.entry(
                    cluster_type::FOLLOWING,
                    u64::from(cluster_type::BLOCKS) | blocks,
                );
                self.next_base += blocks;
                continue;
            }
            let is_last_of_pack =
                self.pack.len() + 1 == self.geometry.pack(self.first_of_pack()).entries;
            let distance = if is_last_of_pack {
                next - number
            } else {
                number - first
            };
            self.entry(cluster_type::FOLLOWING, distance);
        }
        let end = self.block.offset_in_block(self.at);
        if self.at == self.geometry.size && end > 0 && next > first {
            self.entry(cluster_type::PLAIN, end);
        }
    }

    /// Takes the bytes that have been made since the last time.
    pub(super) fn take(&mut self) -> Vec<u8> {
        mem::take(&mut self.bytes)
    }

    /// How many bytes can be taken.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Ends the last pack. The extents must end where the file does.
    pub(super) fn finish(&mut self) {
        debug_assert_eq!(
            (self.at, self.entries),
            (self.geometry.size, self.geometry.entries)
        );
        if !self.pack.is_empty() {
            self.end_pack();
        }
    }

    /// The number of the first entry of this pack.
    fn first_of_pack(&self) -> u64 {
        self.entries - self.pack.len() as u64
    }

    /// Adds an entry. Values have at most 14 bits: offsets in a block, and numbers of blocks of a piece.
    fn entry(&mut self, kind: u16, value: u64) {
        if self.pack.is_empty() {
            self.base = self.next_base;
        }
        self.pack.push((kind, value as u16));
        self.entries += 1;
        if self.pack.len() == self.geometry.pack(self.first_of_pack()).entries {
            self.end_pack();
        }
    }

    fn end_pack(&mut self) {
        let kind = self.geometry.pack(self.first_of_pack());
        let mut bytes = [0; PackKind::LONG.len as usize];
        for (position, (kind_of_entry, value)) in self.pack.drain(..).enumerate() {
            let bit = position * kind.entry_bits;
            let entry = u32::from(kind_of_entry) << self.geometry.value_bits | u32::from(value);
            let shifted = entry << (bit % 8);
            for (byte, part) in bytes[bit / 8..].iter_mut().zip(shifted.to_le_bytes()) {
                *byte |= part;
            }
        }
        // Without clusters of several blocks, readers count the extent itself as well.
        let base = if self.is_big {
            self.base
        } else {
            self.base - 1
        };
        // Images have less than 2³² blocks.
        let len = kind.len as usize;
        bytes[len - BASE..len].copy_from_slice(&(base as u32).to_le_bytes());
        self.bytes.extend_from_slice(&bytes[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> BlockSize {
        BlockSize::default()
    }

    fn extent(len: u32, blocks: u32) -> Extent {
        let data = match blocks {
            0 => Data::Plain,
            _ => Data::Compressed(blocks),
        };
        Extent { len, data }
    }

    fn encoded(behind: u64, is_big: bool, extents: &[Extent]) -> Vec<u8> {
        let size = extents.iter().map(|extent| u64::from(extent.len)).sum();
        let geometry = Geometry::new(size, behind, block());
        let mut encoder = Encoder::new(geometry, 100, 3, is_big, block());
        for extent in extents {
            encoder.push(*extent);
        }
        encoder.finish();
        let bytes = encoder.take();
        assert_eq!(bytes.len() as u64, geometry.len());
        bytes
    }

    #[test]
    fn the_length_is_known_before() {
        for (size, behind, at, len) in [
            (4097, 32, 32, 8 + 8),
            (5 * 4096, 32, 32, 8 + 24),
            (6 * 4096, 32, 32, 8 + 24),
            (7 * 4096, 32, 32, 8 + 24 + 8),
            (21 * 4096, 32, 32, 8 + 24 + 64),
            (22 * 4096, 32, 32, 8 + 24 + 32),
            // Long packs begin at once.
            (16 * 4096, 56, 56, 8 + 32),
            (16 * 4096 + 1, 52, 56, 8 + 32 + 8),
        ] {
            let geometry = Geometry::new(size, behind, block());
            assert_eq!((geometry.at, geometry.len()), (at, len), "{size} {behind}");
        }
        let small = BlockSize::from_bits(9).unwrap();
        assert_eq!(Geometry::new(512 * 100, 64, small).len(), 8 + 400);
    }

    #[test]
    fn short_packs_hold_two_entries() {
        // Three blocks in one, then one as it is, and the rest of it.
        let bytes = encoded(
            32,
            false,
            &[extent(13_000, 1), extent(4096, 0), extent(100, 0)],
        );
        let header = [0, 0, 0, 0, 0, 0, 3, 0];
        let packs = [
            // A beginning, and one behind it, where the next beginning is two further on.
            [0x00, 0x10, 0x02, 0x20, 99, 0, 0, 0],
            // One that is two behind its beginning, and the next beginning.
            [0x02, 0x20, 0xc8, 0x02, 100, 0, 0, 0],
            // The file ends behind the last beginning.
            [0xc8, 0x02, 0, 0, 101, 0, 0, 0],
        ];
        assert_eq!(bytes, [&header[..], &packs.concat()].concat());
    }

    #[test]
    fn the_number_of_blocks_is_behind_the_beginning() {
        let bytes = encoded(32, true, &[extent(20_000, 3), extent(4096, 0)]);
        let header = [0, 0, 0, 0, 6, 0, 3, 0];
        let packs = [
            [0x00, 0x10, 0x03, 0x28, 100, 0, 0, 0],
            [0x02, 0x20, 0x01, 0x20, 103, 0, 0, 0],
            // It ends where nothing begins.
            [0x20, 0x0e, 0x20, 0x0e, 103, 0, 0, 0],
        ];
        assert_eq!(bytes, [&header[..], &packs.concat()].concat());
    }
}
