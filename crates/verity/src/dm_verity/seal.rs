use std::{num::NonZeroUsize, ops::Range};

use verimount_source::{GrowingFile, ReadAt};

use super::{Params, superblock::Superblock};
use crate::{
    Digest, Error, Progress, SealLayout,
    builder::build_levels,
    file_sink::FileSink,
    seal_file::{Append, SealFile},
};

/// The result of [`seal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedDevice {
    /// The root hash, which readers must know.
    pub root: Digest,
    /// Offset of the superblock in the file, in bytes.
    pub hash_offset: u64,
}

/// Computes the tree over `data`, and writes a superblock and the tree to `file`, which nobody
/// reads yet. For [`SealLayout::Appended`] the file begins with `data`, otherwise it is empty.
///
/// # Errors
/// [`Error::NotWholeBlocks`], [`Error::Source`], [`Error::Write`], [`Error::TooLarge`] or
/// [`Error::Cancelled`].
pub fn seal(
    data: &dyn ReadAt,
    file: &dyn GrowingFile,
    layout: SealLayout,
    params: &Params,
    threads: NonZeroUsize,
    progress: &mut Progress<'_>,
) -> Result<SealedDevice, Error> {
    let area = Area::new(params, data.size(), layout)?;
    let mut new = SealFile::new(file);
    area.write(data, &mut new, threads, progress)
}

/// Computes the tree over `content`, and appends a superblock and the tree to `file`, which holds
/// `content` and may be in use. Interruptions are handled as in
/// [`append_seal`](crate::append_seal).
///
/// # Errors
/// As [`seal`]; [`Error::AlreadySealed`], and [`Error::BegunOtherwise`] for other parameters.
pub fn append_seal(
    content: &dyn ReadAt,
    file: &dyn GrowingFile,
    params: &Params,
    threads: NonZeroUsize,
    progress: &mut Progress<'_>,
) -> Result<SealedDevice, Error> {
    let append = Append::new(file, content)?;
    let data = append.data()?;
    let area = Area::new(params, data.size(), SealLayout::Appended)?;
    append.write(area.tree.end, |file| {
        area.write(&data, file, threads, progress)
    })
}

/// The hash area to be written, and its offsets in bytes.
struct Area {
    superblock: Superblock,
    data_end: u64,
    hash_offset: u64,
    tree: Range<u64>,
}

impl Area {
    fn new(params: &Params, data_size: u64, layout: SealLayout) -> Result<Self, Error> {
        let superblock = Superblock::new(params.clone(), data_size)?;
        let data_end = match layout {
            SealLayout::Appended => data_size,
            SealLayout::Sidecar => 0,
        };
        // Data blocks may be smaller than hash blocks.
        let hash_offset = data_end.next_multiple_of(params.hash_block_size.bytes() as u64);
        let tree = superblock
            .tree_place(hash_offset)
            .ok_or(Error::TooLarge(data_size))?;
        Ok(Self {
            superblock,
            data_end,
            hash_offset,
            tree,
        })
    }

    fn write(
        &self,
        data: &dyn ReadAt,
        file: &mut SealFile<'_>,
        threads: NonZeroUsize,
        progress: &mut Progress<'_>,
    ) -> Result<SealedDevice, Error> {
        file.skip(self.data_end..self.hash_offset)
            .map_err(Error::Write)?;
        let mut sink = FileSink::new(file, self.tree.start);
        let root = build_levels(
            data,
            &self.superblock.params.hashing(),
            &self.superblock.geometry,
            threads,
            &mut sink,
            progress,
        )?;
        sink.flush().map_err(Error::Write)?;
        // Padded with zeros up to the tree.
        let mut bytes = self.superblock.to_bytes(&root).to_vec();
        bytes.resize((self.tree.start - self.hash_offset) as usize, 0);
        file.write(&bytes, self.hash_offset).map_err(Error::Write)?;
        Ok(SealedDevice {
            root,
            hash_offset: self.hash_offset,
        })
    }
}
