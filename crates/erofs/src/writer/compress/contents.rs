//! Writes compressed contents, and their indexes.

use std::{
    io::{Seek, SeekFrom, Write},
    num::NonZeroUsize,
    ops::ControlFlow,
    slice,
};

use verimount_scan::InodeId;
use verimount_source::{Progress, in_order_with};

use super::{
    Compression,
    batches::{Batches, Piece},
    codec,
    index::Encoder,
    piece::{Data, Extent, Packed},
};
use crate::{
    raw::INODE_SLOT,
    writer::{
        BuildError, Plan,
        layout::{Placed, Stored},
        shape,
    },
};

/// The most bytes of memory that all threads may take.
const MEMORY: u64 = 40 << 20;

/// How many packed batches of each thread wait to be written.
const WAITING: usize = 3;

/// How many times the size of a batch a thread takes: what it reads, the batch that is being packed, those that wait, and
/// the one that is being written.
const BATCHES: u64 = 3 + WAITING as u64;

/// How many bytes of an index are made before they are written.
const INDEX_LEN: usize = 64 << 10;

/// Where everything was written.
pub(in crate::writer) struct Written {
    /// By the numbers of inodes.
    pub(in crate::writer) places: Vec<Placed>,
    /// The end of the image.
    pub(in crate::writer) blocks: u64,
}

/// Writes all contents behind the room for the metadata, and the indexes into it.
pub(in crate::writer) fn write(
    plan: &Plan,
    compression: Compression,
    out: &mut (impl Write + Seek),
    threads: NonZeroUsize,
    progress: &mut Progress<'_>,
) -> Result<Written, BuildError> {
    let batches = Batches::new(plan, compression);
    let mut writer = Writer {
        plan,
        compression,
        out,
        written: Written {
            places: plan.layout.places.clone(),
            blocks: plan.layout.metadata_blocks,
        },
        file: None,
        repeated: plan.equal.by_first(),
    };
    in_order_with(
        batches.count(),
        threads.min(most_threads(plan, compression, batches.size())),
        WAITING,
        || None,
        |batch, worker| batches.pack(batch, worker),
        |batch, packed| writer.add(batches.pieces(batch), &packed?, progress),
    )?;
    writer.place_repeated();
    Ok(writer.written)
}

/// How many threads have room in [`MEMORY`].
fn most_threads(plan: &Plan, compression: Compression, batch: u64) -> NonZeroUsize {
    let cluster = compression.cluster.bytes(plan.format.block);
    let each = BATCHES * batch + codec::memory(compression.codec, cluster);
    NonZeroUsize::new((MEMORY / each) as usize).unwrap_or(NonZeroUsize::MIN)
}

/// Writes packed batches, one after the other.
struct Writer<'p, 'o, W> {
    plan: &'p Plan,
    compression: Compression,
    out: &'o mut W,
    written: Written,
    /// The file that the last piece was of, if there is more of it.
    file: Option<File>,
    /// The files that have the content of another one: that one, and they.
    repeated: Vec<(InodeId, InodeId)>,
}

/// A file whose content is being written.
struct File {
    inode: InodeId,
    first_block: u64,
    /// Its index, if it may be compressed.
    index: Option<Encoder>,
    /// How much of the index is written.
    index_written: u64,
    /// Whether anything of it is compressed.
    is_compressed: bool,
}

impl<W: Write + Seek> Writer<'_, '_, W> {
    /// Adds a batch of these pieces.
    fn add<'t>(
        &mut self,
        pieces: impl Iterator<Item = Piece<'t>>,
        packed: &Packed,
        progress: &mut Progress<'_>,
    ) -> Result<(), BuildError> {
        let block = self.plan.format.block;
        self.write_at(self.written.blocks * block.bytes(), &packed.blocks)?;
        let mut extents = packed.extents.iter();
        let mut done = 0;
        for piece in pieces {
            let blocks = block.blocks_for(piece.len());
            done += blocks * block.bytes();
            let mut file = self.file_of(&piece);
            match &mut file.index {
                None => self.written.blocks += blocks,
                Some(index) => {
                    let added = push(index, &mut extents, piece.len());
                    self.written.blocks += added.blocks;
                    file.is_compressed |= added.is_compressed;
                }
            }
            self.end_piece(&piece, file)?;
        }
        match progress(done) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(BuildError::Cancelled),
        }
    }

    /// The file that a piece is of.
    fn file_of(&mut self, piece: &Piece<'_>) -> File {
        let inode = piece.entry.inode_id();
        if let Some(file) = self.file.take().filter(|file| file.inode == inode) {
            return file;
        }
        let format = self.plan.format;
        let first_block = self.written.blocks;
        let index = match self.plan.shape(piece.entry).data {
            shape::Data::Compressed(geometry) => Some(Encoder::new(
                geometry,
                first_block,
                self.compression.codec.algorithm().number(),
                self.compression.cluster.is_big(format.block),
                format.block,
            )),
            shape::Data::Flat { .. } | shape::Data::Chunks(_) => None,
        };
        File {
            inode,
            first_block,
            index,
            index_written: 0,
            is_compressed: false,
        }
    }

    /// Ends a piece, and its file if it was the last one.
    fn end_piece(&mut self, piece: &Piece<'_>, mut file: File) -> Result<(), BuildError> {
        let has_ended = piece.range.end == piece.file_end;
        if let Some(mut index) = file.index.take() {
            if has_ended {
                index.finish();
            }
            // What is not compressed at all needs no index.
            if file.is_compressed && (has_ended || index.len() >= INDEX_LEN) {
                let bytes = index.take();
                self.write_index(&file, &bytes)?;
                file.index_written += bytes.len() as u64;
            }
            file.index = Some(index);
        }
        if has_ended {
            // There are less than 2³² blocks.
            let stored = if file.is_compressed {
                Stored::Compressed((self.written.blocks - file.first_block) as u32)
            } else {
                Stored::From(file.first_block as u32)
            };
            self.written.places[file.inode.index()].stored = stored;
        } else {
            self.file = Some(file);
        }
        Ok(())
    }

    /// Writes a part of an index behind the inodes of all files with this content.
    fn write_index(&mut self, file: &File, bytes: &[u8]) -> Result<(), BuildError> {
        let others = self.repeated_of(file.inode);
        let others = others.map(|index| self.repeated[index].1);
        let inodes: Vec<InodeId> = [file.inode].into_iter().chain(others).collect();
        for inode in inodes {
            let tree = &self.plan.tree;
            let shape = self.plan.shape(tree.entry(tree.inode(inode).first_name));
            if let shape::Data::Compressed(geometry) = shape.data {
                let inode_at = u64::from(self.written.places[inode.index()].nid) * INODE_SLOT;
                self.write_at(inode_at + geometry.at + file.index_written, bytes)?;
            }
        }
        Ok(())
    }

    /// The indexes of the repetitions of a file.
    fn repeated_of(&self, first: InodeId) -> std::ops::Range<usize> {
        let start = self.repeated.partition_point(|(other, _)| *other < first);
        let end = self.repeated.partition_point(|(other, _)| *other <= first);
        start..end
    }

    /// Places the contents of the files that have those of others.
    fn place_repeated(&mut self) {
        for (first, other) in &self.repeated {
            self.written.places[other.index()].stored = self.written.places[first.index()].stored;
        }
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), BuildError> {
        let sought = self.out.seek(SeekFrom::Start(at));
        sought
            .and_then(|_| self.out.write_all(bytes))
            .map_err(BuildError::Output)
    }
}

/// What was added of a file.
struct Added {
    blocks: u64,
    is_compressed: bool,
}

/// Adds the extents of a piece of `len` bytes to the index of its file.
fn push(index: &mut Encoder, extents: &mut slice::Iter<'_, Extent>, len: u64) -> Added {
    let mut added = Added {
        blocks: 0,
        is_compressed: false,
    };
    let mut left = len;
    while left > 0 {
        let Some(extent) = extents.next() else { break };
        left -= u64::from(extent.len);
        index.push(*extent);
        added.blocks += u64::from(extent.blocks());
        added.is_compressed |= extent.data != Data::Plain;
    }
    added
}
