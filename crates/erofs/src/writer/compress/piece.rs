//! Packs a piece of a file: a part that is compressed independently of all others.

use super::codec::Compressor;
use crate::{block_size::BlockSize, writer::BuildError};

/// A piece is stored as it is unless at least one of this many blocks is saved.
const LEAST_SAVING: usize = 64;

/// A part of a file that is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::writer) struct Extent {
    /// Bytes of the file.
    pub(in crate::writer) len: u32,
    pub(in crate::writer) data: Data,
}

/// How the data of an extent is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::writer) enum Data {
    /// As it is, in one block.
    Plain,
    /// Compressed, in this many blocks.
    Compressed(u32),
}

/// What a batch was packed to.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// The blocks of all pieces.
    pub(super) blocks: Vec<u8>,
    /// The extents of all compressed pieces.
    pub(super) extents: Vec<Extent>,
}

impl Extent {
    /// Blocks of its data.
    pub(in crate::writer) fn blocks(self) -> u32 {
        match self.data {
            Data::Plain => 1,
            Data::Compressed(blocks) => blocks,
        }
    }

    fn plain(len: usize) -> Self {
        Self {
            len: len as u32,
            data: Data::Plain,
        }
    }
}

/// Packs pieces.
pub(super) struct Packer {
    compressor: Compressor,
    block: usize,
    cluster: usize,
}

impl Packer {
    pub(super) fn new(compressor: Compressor, cluster: usize, block: BlockSize) -> Self {
        Self {
            compressor,
            block: block.bytes() as usize,
            cluster,
        }
    }

    /// Adds the blocks and the extents of a piece.
    ///
    /// An extent that is stored as it is has a block, except for the last one of the piece, which may be shorter. All
    /// others are longer than their blocks. So no two begin in the same block of the file, and one in
    /// several blocks contains a whole block of the file behind the one that it begins in. The index needs both.
    pub(super) fn pack(&mut self, piece: &[u8], packed: &mut Packed) -> Result<(), BuildError> {
        let (start, first) = (packed.blocks.len(), packed.extents.len());
        self.compress(piece, packed)?;
        let used = (packed.blocks.len() - start) / self.block;
        let plain = piece.len().div_ceil(self.block);
        let saved = plain.saturating_sub(used);
        if saved * LEAST_SAVING < plain {
            packed.blocks.truncate(start);
            packed.extents.truncate(first);
            self.store(piece, packed);
        }
        Ok(())
    }

    fn compress(&mut self, piece: &[u8], packed: &mut Packed) -> Result<(), BuildError> {
        self.compressor.restart();
        let mut rest = piece;
        while !rest.is_empty() {
            // What has a block needs one, compressed or not.
            let filled = if rest.len() <= self.block {
                None
            } else {
                self.compressor.fill(rest)?
            };
            let used = filled
                .as_ref()
                .map_or(0, |filled| filled.bytes.len().div_ceil(self.block));
            let saving = filled.filter(|filled| filled.taken > used * self.block);
            let taken = match saving {
                Some(filled) => {
                    // The decompressor looks for the beginning behind zeros.
                    let padding = used * self.block - filled.bytes.len();
                    let blocks = &mut packed.blocks;
                    blocks.resize(blocks.len() + padding, 0);
                    blocks.extend_from_slice(filled.bytes);
                    packed.extents.push(Extent {
                        len: filled.taken as u32,
                        data: Data::Compressed(used as u32),
                    });
                    filled.taken
                }
                None => {
                    let taken = rest.len().min(self.cluster);
                    self.store(&rest[..taken], packed);
                    taken
                }
            };
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// Adds bytes as they are.
    fn store(&self, bytes: &[u8], packed: &mut Packed) {
        let parts = bytes.chunks(self.block);
        let extents = parts.map(|part| Extent::plain(part.len()));
        packed.extents.extend(extents);
        add_padded(bytes, self.block, &mut packed.blocks);
    }
}

/// Adds bytes, and zeros up to the end of a block.
pub(super) fn add_padded(bytes: &[u8], block: usize, blocks: &mut Vec<u8>) {
    blocks.extend_from_slice(bytes);
    blocks.resize(blocks.len().next_multiple_of(block), 0);
}

#[cfg(test)]
mod tests {
    use verimount_testkit::{is_exhaustive, noise};

    use super::*;
    use crate::{
        decode::Algorithm,
        writer::compress::{ClusterSize, Codec},
    };

    /// Text, zeros and noise of all lengths.
    fn contents() -> Vec<Vec<u8>> {
        let text: Vec<u8> = (0..60_000_u32)
            .flat_map(|number| format!("line {number}\n").into_bytes())
            .collect();
        let mut contents = vec![vec![0; 1 << 20], noise(300_000, 1), text.clone()];
        for len in [1, 4095, 4096, 4097, 8191, 8192, 8193, 65_536, 70_000] {
            contents.extend([text[..len].to_vec(), vec![0; len], noise(len, 2)]);
        }
        contents.push([&text[..100_000], &noise(100_000, 3), &text[..5000]].concat());
        contents.push([&noise(5000, 4), &[0; 300_000][..], &noise(100, 5)].concat());
        contents
    }

    #[test]
    fn extents_hold_the_piece() {
        const BLOCK: usize = 4096;
        const SLOW: &str = "zstd,19";
        for codec in ["lz4", "lz4,9", "zstd", SLOW] {
            for size in [4096_u64, 16_384, 65_536] {
                if codec == SLOW && size != 16_384 && !is_exhaustive() {
                    continue;
                }
                let codec: Codec = codec.parse().unwrap();
                let block = BlockSize::default();
                let cluster = ClusterSize::try_from(size).unwrap().bytes(block) as usize;
                let compressor = Compressor::new(codec, cluster, block).unwrap();
                let mut packer = Packer::new(compressor, cluster, block);
                for content in contents() {
                    let mut packed = Packed::default();
                    packer.pack(&content, &mut packed).unwrap();
                    let Packed { blocks, extents } = packed;
                    assert!(blocks.len() <= content.len().next_multiple_of(BLOCK));
                    let unpacked = unpack(&blocks, &extents, codec.algorithm());
                    assert!(unpacked == content, "{codec:?} {size} {}", content.len());
                    // What was packed before does not matter.
                    let mut again = Packed::default();
                    packer.pack(&content, &mut again).unwrap();
                    assert!((blocks, extents) == (again.blocks, again.extents));
                }
            }
        }
    }

    /// The content of extents, whose shapes are checked.
    fn unpack(mut blocks: &[u8], extents: &[Extent], algorithm: Algorithm) -> Vec<u8> {
        const BLOCK: usize = 4096;
        let mut content = Vec::new();
        for (number, extent) in extents.iter().enumerate() {
            let (data, rest) = blocks.split_at(extent.blocks() as usize * BLOCK);
            blocks = rest;
            let len = extent.len as usize;
            let mut bytes = vec![0; len];
            match extent.data {
                Data::Plain => {
                    assert!(len == BLOCK || number + 1 == extents.len() || len < BLOCK);
                    bytes.copy_from_slice(&data[..len]);
                }
                Data::Compressed(count) => {
                    assert!(len > count as usize * BLOCK);
                    let start = data.iter().position(|byte| *byte != 0).unwrap();
                    algorithm.decode(&data[start..], &mut bytes).unwrap();
                }
            }
            content.extend(bytes);
        }
        assert!(blocks.is_empty());
        content
    }
}
