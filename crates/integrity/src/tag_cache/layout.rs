use std::ops::Range;

use crate::{SECTOR, geometry::Geometry};

/// The number of blocks whose tags form a chunk: enough to keep the number of chunks small, and a
/// multiple of the sector size, so that tags of any size fill whole sectors.
const CHUNK_BLOCKS: u64 = 1024;

const _: () = assert!(CHUNK_BLOCKS.is_multiple_of(SECTOR));

/// How the tags of a volume are divided into chunks: contiguous whole sectors of tags.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkLayout {
    geometry: Geometry,
    blocks_per_chunk: u64,
    chunks_per_area: u64,
    pub(super) tag_size: usize,
}

/// A part of a chunk: tags `start..end` of chunk `id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) id: u64,
    pub(super) tags: Range<usize>,
}

impl ChunkLayout {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let blocks_per_chunk = geometry.blocks_per_area().min(CHUNK_BLOCKS);
        Self {
            geometry: *geometry,
            blocks_per_chunk,
            chunks_per_area: geometry.blocks_per_area().div_ceil(blocks_per_chunk),
            tag_size: geometry.shape.tag_size.bytes(),
        }
    }

    /// The size of a full chunk in bytes.
    pub(super) fn chunk_len(&self) -> usize {
        (self.blocks_per_chunk as usize * self.tag_size).next_multiple_of(SECTOR as usize)
    }

    /// The pieces of chunks that hold the tags of `blocks`.
    pub(super) fn pieces(&self, blocks: Range<u64>) -> impl Iterator<Item = Piece> {
        let layout = *self;
        let mut block = blocks.start;
        std::iter::from_fn(move || {
            let per_area = layout.geometry.blocks_per_area();
            let in_area = block % per_area;
            let id = block / per_area * layout.chunks_per_area + in_area / layout.blocks_per_chunk;
            let first = layout.first_block(id);
            let end = (first + layout.tags(id) as u64).min(blocks.end);
            let tags = (block - first) as usize..end.checked_sub(first)? as usize;
            block = end;
            (!tags.is_empty()).then_some(Piece { id, tags })
        })
    }

    /// The number of tags in a chunk.
    pub(super) fn tags(&self, id: u64) -> usize {
        let first = self.first_block(id);
        let area_end =
            (first / self.geometry.blocks_per_area() + 1) * self.geometry.blocks_per_area();
        (area_end - first)
            .min(self.blocks_per_chunk)
            .min(self.geometry.blocks() - first) as usize
    }

    /// The offset of a chunk on the metadata device, in bytes.
    pub(super) fn offset(&self, id: u64) -> u64 {
        let in_area = id % self.chunks_per_area * self.blocks_per_chunk;
        self.geometry.area_tags_offset(id / self.chunks_per_area) + in_area * self.tag_size as u64
    }

    /// The chunks of the same area from `id` on.
    pub(super) fn rest_of_area(&self, id: u64) -> Range<u64> {
        let area = id / self.chunks_per_area;
        let last_block = self.geometry.blocks() - 1;
        let last = self.pieces(last_block..last_block + 1).next();
        let end = last.map_or(id, |piece| piece.id) + 1;
        id..((area + 1) * self.chunks_per_area).min(end)
    }

    fn first_block(&self, id: u64) -> u64 {
        let area = id / self.chunks_per_area;
        area * self.geometry.blocks_per_area() + id % self.chunks_per_area * self.blocks_per_chunk
    }
}
