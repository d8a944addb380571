//! The pieces of all contents, in batches that are packed at a time.

use std::{iter, ops::Range};

use verimount_scan::{Contents, Entry, EntryId, InodeKind};

use super::{
    Compression,
    codec::Compressor,
    piece::{Packed, Packer, add_padded},
};
use crate::{
    block_size::BlockSize,
    writer::{
        BuildError, Plan,
        shape::{self, Shape},
    },
};

/// The least and the most bytes of a piece. Longer ones leave less room at their ends, and take more memory.
const PIECE: (u64, u64) = (1 << 20, 4 << 20);

/// How many times the size of a cluster a piece has, in between.
const PIECE_PER_CLUSTER: u64 = 16;

/// The most blocks of a piece, so that distances in an index have few bits.
const MAX_BLOCKS: u64 = 1024;

/// A part of a file that is packed by itself.
#[derive(Debug, Clone)]
pub(super) struct Piece<'t> {
    pub(super) entry: Entry<'t>,
    /// The bytes of the content.
    pub(super) range: Range<u64>,
    /// Where the last piece of the file ends.
    pub(super) file_end: u64,
    pub(super) is_compressed: bool,
}

impl Piece<'_> {
    pub(super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// Where a batch begins.
#[derive(Debug, Clone, Copy)]
struct Start {
    /// The index of a file.
    file: usize,
    /// Where its first piece begins.
    at: u64,
}

/// All contents that have blocks, each once, in walk order, in batches of pieces.
pub(super) struct Batches<'p> {
    plan: &'p Plan,
    compression: Compression,
    /// The most bytes of a batch, and of a piece.
    size: u64,
    files: Vec<EntryId>,
    starts: Vec<Start>,
}

/// What a thread needs to pack batches.
pub(super) struct Worker<'p> {
    contents: Contents<'p>,
    packer: Packer,
    input: Vec<u8>,
}

/// The most bytes of a piece.
fn piece_size(compression: Compression, block: BlockSize) -> u64 {
    let (least, most) = PIECE;
    let size = compression.cluster.bytes(block) * PIECE_PER_CLUSTER;
    size.clamp(least, most).min(MAX_BLOCKS * block.bytes())
}

impl<'p> Batches<'p> {
    pub(super) fn new(plan: &'p Plan, compression: Compression) -> Self {
        let has_blocks = |entry: &Entry<'_>| {
            matches!(
                entry.inode().kind,
                InodeKind::File(_) | InodeKind::Symlink(_)
            ) && entry.is_first_name()
                && !plan.equal.is_repeated(entry.inode_id())
                && plan.shape(*entry).blocks() > 0
        };
        let files = plan.tree.entries().filter(has_blocks);
        let mut batches = Self {
            plan,
            compression,
            size: piece_size(compression, plan.format.block),
            files: files.map(Entry::id).collect(),
            starts: Vec::new(),
        };
        batches.starts = batches.divide();
        batches
    }

    /// Begins a batch with each piece that no longer fits into the one before.
    fn divide(&self) -> Vec<Start> {
        let mut starts = Vec::new();
        let mut room = 0;
        for (file, entry) in self.files.iter().enumerate() {
            for piece in self.pieces_of(*entry) {
                if starts.is_empty() || piece.len() > room {
                    let at = piece.range.start;
                    starts.push(Start { file, at });
                    room = self.size;
                }
                room -= piece.len();
            }
        }
        starts
    }

    /// Number of batches.
    pub(super) fn count(&self) -> u64 {
        self.starts.len() as u64
    }

    /// The most bytes that are packed at a time.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The pieces of a batch.
    pub(super) fn pieces(&self, batch: u64) -> impl Iterator<Item = Piece<'p>> {
        let batch = batch as usize;
        let first = self.starts[batch];
        let end = self.starts.get(batch + 1).copied();
        let last_file = match end {
            // Its beginning may belong to this batch.
            Some(end) if end.at > 0 => end.file + 1,
            Some(end) => end.file,
            None => self.files.len(),
        };
        let files = (first.file..last_file).map(|file| (file, self.files[file]));
        files.flat_map(move |(file, entry)| {
            let from = Some(first.at).filter(|_| file == first.file);
            let to = end.filter(|end| end.file == file).map(|end| end.at);
            self.pieces_of(entry).filter(move |piece| {
                let at = piece.range.start;
                from.is_none_or(|from| from <= at) && to.is_none_or(|to| at < to)
            })
        })
    }

    /// The pieces of a file.
    fn pieces_of(&self, entry: EntryId) -> impl Iterator<Item = Piece<'p>> + use<'p> {
        let entry = self.plan.tree.entry(entry);
        let shape = self.plan.shape(entry);
        let is_compressed = matches!(shape.data, shape::Data::Compressed(_));
        let size = self.size;
        let ranges = stored_ranges(&shape, self.plan.format.block);
        let file_end = ranges.last().map_or(0, |range| range.end);
        ranges.into_iter().flat_map(move |range| {
            let starts = range.clone().step_by(size as usize);
            starts.map(move |start| Piece {
                entry,
                range: start..range.end.min(start + size),
                file_end,
                is_compressed,
            })
        })
    }

    /// Packs a batch. The worker is made for the first one.
    pub(super) fn pack(
        &self,
        batch: u64,
        worker: &mut Option<Worker<'p>>,
    ) -> Result<Packed, BuildError> {
        let worker = match worker {
            Some(worker) => worker,
            None => worker.insert(self.worker()?),
        };
        let mut packed = Packed::default();
        for piece in self.pieces(batch) {
            worker.read(&piece)?;
            if piece.is_compressed {
                worker.packer.pack(&worker.input, &mut packed)?;
            } else {
                let block = self.plan.format.block.bytes() as usize;
                add_padded(&worker.input, block, &mut packed.blocks);
            }
        }
        Ok(packed)
    }

    fn worker(&self) -> Result<Worker<'p>, BuildError> {
        let block = self.plan.format.block;
        let cluster = self.compression.cluster.bytes(block) as usize;
        let compressor = Compressor::new(self.compression.codec, cluster, block)?;
        Ok(Worker {
            contents: Contents::new(&self.plan.tree)?,
            packer: Packer::new(compressor, cluster, block),
            input: Vec::new(),
        })
    }
}

/// The ranges of a content that are stored.
fn stored_ranges(shape: &Shape, block: BlockSize) -> Vec<Range<u64>> {
    match &shape.data {
        shape::Data::Chunks(map) => map
            .stored_chunks()
            .map(|chunks| map.blocks_of(&chunks))
            .map(|blocks| {
                blocks.start * block.bytes()..(blocks.end * block.bytes()).min(shape.size)
            })
            .collect(),
        shape::Data::Flat { .. } | shape::Data::Compressed(_) => {
            iter::once(0..shape.size).collect()
        }
    }
}

impl Worker<'_> {
    /// Reads a piece.
    fn read(&mut self, piece: &Piece<'_>) -> Result<(), BuildError> {
        let range = piece.range.start as usize..piece.range.end as usize;
        self.input.clear();
        if let InodeKind::Symlink(target) = &piece.entry.inode().kind {
            self.input.extend_from_slice(&target[range]);
            return Ok(());
        }
        self.input.resize(range.len(), 0);
        let content = self.contents.open(piece.entry.id())?;
        content.read_exact_at(&mut self.input, piece.range.start)?;
        Ok(content.finish()?)
    }
}
