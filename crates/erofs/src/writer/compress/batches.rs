//! The pieces of all contents, in batches that are packed at a time.

use std::{collections::HashMap, ops::Range};

use verimount_scan::{Content, Contents, Entry, EntryId, Error as ScanError, InodeKind};

use super::{
    Compression,
    codec::Compressor,
    piece::{Packed, Packer, add_padded},
};
use crate::{
    block_size::BlockSize,
    writer::{BuildError, Plan, shape::Data},
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

/// A content that has blocks.
#[derive(Debug, Clone, Copy)]
struct File {
    entry: EntryId,
    /// Its length in bytes.
    size: u64,
    is_compressed: bool,
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
    /// The most bytes of a batch, and of a piece: whole blocks.
    size: u64,
    /// What is needed for each batch is remembered: to find it takes as long as a file has ranges.
    files: Vec<File>,
    /// The ranges that are stored of files with holes.
    sparse: HashMap<EntryId, Box<[Range<u64>]>>,
    starts: Vec<Start>,
}

/// What a thread needs to pack batches.
pub(super) struct Worker<'p> {
    contents: Contents<'p>,
    /// The file that was read last. A file may have many pieces, and opening it takes as long as it has ranges.
    open: Option<(EntryId, Content<'p>)>,
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
        let mut batches = Self {
            plan,
            compression,
            size: piece_size(compression, plan.format.block),
            files: Vec::new(),
            sparse: HashMap::new(),
            starts: Vec::new(),
        };
        let entries = plan.tree.entries();
        for entry in entries.filter(|entry| may_have_blocks(plan, *entry)) {
            batches.add_file(entry);
        }
        batches.starts = batches.divide();
        batches
    }

    /// Adds a file, if it has blocks.
    fn add_file(&mut self, entry: Entry<'_>) {
        let shape = self.plan.shape(entry);
        if shape.blocks() == 0 {
            return;
        }
        self.files.push(File {
            entry: entry.id(),
            size: shape.size,
            is_compressed: matches!(shape.data, Data::Compressed(_)),
        });
        if let Data::Chunks(map) = &shape.data {
            let ranges = map.stored_ranges(shape.size, self.plan.format.block);
            self.sparse.insert(entry.id(), ranges.collect());
        }
    }

    /// Begins a batch with each piece that no longer fits into the one before. The blocks of each count: many pieces may be
    /// much shorter.
    fn divide(&self) -> Vec<Start> {
        let mut starts = Vec::new();
        let mut room = 0;
        for (number, file) in self.files.iter().enumerate() {
            for piece in self.pieces_of(*file, 0..u64::MAX) {
                let padded = piece.len().next_multiple_of(self.plan.format.block.bytes());
                if starts.is_empty() || padded > room {
                    let at = piece.range.start;
                    starts.push(Start { file: number, at });
                    room = self.size;
                }
                room -= padded;
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
        let files = (first.file..last_file).map(|number| (number, self.files[number]));
        files.flat_map(move |(number, file)| {
            let from = Some(first).filter(|first| first.file == number);
            let to = end.filter(|end| end.file == number);
            let within = from.map_or(0, |from| from.at)..to.map_or(u64::MAX, |to| to.at);
            self.pieces_of(file, within)
        })
    }

    /// The pieces of a file that begin within a range, at whose beginning one does unless that is 0.
    fn pieces_of(&self, file: File, within: Range<u64>) -> impl Iterator<Item = Piece<'p>> {
        let sparse = self.sparse.get(&file.entry).map(|ranges| &**ranges);
        let entry = self.plan.tree.entry(file.entry);
        let (whole, file_end) = match sparse {
            Some(ranges) => (None, ranges.last().map_or(0, |last| last.end)),
            None => (Some(0..file.size), file.size),
        };
        let ranges = from(sparse.unwrap_or_default(), within.start);
        let ranges = whole.into_iter().chain(ranges.iter().cloned());
        let (size, end) = (self.size, within.end);
        ranges
            .take_while(move |range| range.start < end)
            .flat_map(move |range| divided(range, &within, size))
            .map(move |range| Piece {
                entry,
                range,
                file_end,
                is_compressed: file.is_compressed,
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
            open: None,
            packer: Packer::new(compressor, cluster, block),
            input: Vec::new(),
        })
    }
}

/// Whether an entry is the first one of a content that may have blocks.
fn may_have_blocks(plan: &Plan, entry: Entry<'_>) -> bool {
    let kind = &entry.inode().kind;
    matches!(kind, InodeKind::File(_) | InodeKind::Symlink(_))
        && entry.is_first_name()
        && !plan.equal.is_repeated(entry.inode_id())
}

/// The ranges that do not end before `at`.
fn from(ranges: &[Range<u64>], at: u64) -> &[Range<u64>] {
    &ranges[ranges.partition_point(|range| range.end <= at)..]
}

/// A range in parts of `size`, of which those are given that begin within another range. If that begins in this one, a part
/// does there.
fn divided(
    range: Range<u64>,
    within: &Range<u64>,
    size: u64,
) -> impl Iterator<Item = Range<u64>> + use<> {
    let starts = range.start.max(within.start)..range.end.min(within.end);
    let starts = starts.step_by(size as usize);
    starts.map(move |start| start..range.end.min(start + size))
}

impl<'p> Worker<'p> {
    /// Reads a piece.
    fn read(&mut self, piece: &Piece<'p>) -> Result<(), BuildError> {
        let range = piece.range.start as usize..piece.range.end as usize;
        self.input.clear();
        if let InodeKind::Symlink(target) = &piece.entry.inode().kind {
            self.input.extend_from_slice(&target[range]);
            return Ok(());
        }
        self.input.resize(range.len(), 0);
        let content = opened(&mut self.open, &mut self.contents, piece.entry.id())?;
        content.read_exact_at(&mut self.input, piece.range.start)?;
        Ok(content.check()?)
    }
}

/// The content of a file, which is opened unless it is the last one that was.
fn opened<'a, 'p>(
    last: &'a mut Option<(EntryId, Content<'p>)>,
    contents: &mut Contents<'p>,
    entry: EntryId,
) -> Result<&'a Content<'p>, ScanError> {
    let content = match last.take().filter(|(file, _)| *file == entry) {
        Some((_, content)) => content,
        None => contents.open(entry)?,
    };
    Ok(&last.insert((entry, content)).1)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use verimount_scan::{Options as ScanOptions, scan};
    use verimount_testkit::{go_on, noise};

    use super::*;
    use crate::{Options, plan};

    /// Each file has two blocks, but little more than one is read.
    #[test]
    fn a_batch_has_room_for_the_blocks_of_its_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let content = noise(300 * 4099, 1);
        for (number, content) in content.chunks(4099).enumerate() {
            fs::write(folder.path().join(number.to_string()), content).unwrap();
        }
        let compression = Compression {
            codec: "lz4".parse().unwrap(),
            cluster: 4096.try_into().unwrap(),
        };
        let options = Options {
            compression: Some(compression),
            ..Options::default()
        };
        let tree = scan(folder.path(), &ScanOptions::default(), &mut go_on).unwrap();
        let plan = plan(tree, &options, &mut go_on).unwrap();
        let batches = Batches::new(&plan, compression);
        let mut worker = None;
        let packed = (0..batches.count()).map(|batch| batches.pack(batch, &mut worker).unwrap());
        let lens = Vec::from_iter(packed.map(|packed| packed.blocks.len() as u64));
        assert_eq!(lens.iter().sum::<u64>(), 300 * 8192);
        assert!(lens.iter().all(|len| *len <= batches.size()), "{lens:?}");
    }

    /// To walk there from the beginning would have no end.
    #[test]
    fn parts_are_found_where_they_are() {
        const SIZE: u64 = 1 << 20;
        let at = 1 << 62;
        let parts = |end| Vec::from_iter(divided(5..at + SIZE + 7, &(at + 5..end), SIZE));
        let [first, second] = [at + 5..at + 5 + SIZE, at + 5 + SIZE..at + SIZE + 7];
        assert_eq!(parts(u64::MAX), [first.clone(), second]);
        assert_eq!(parts(at + 5 + SIZE), [first]);
        assert_eq!(from(&[0..2, 4..6, 8..9, 9..10], 6), [8..9, 9..10]);
    }
}
