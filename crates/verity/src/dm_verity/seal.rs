use std::{fs::File, num::NonZeroUsize, os::unix::fs::FileExt};

use verimount_source::ReadAt;

use super::{Params, superblock::Superblock};
use crate::{
    Digest, Error, Progress, SealLayout,
    builder::build_levels,
    file_sink::{FileSink, cut_off_if_failed},
};

/// What [`seal`] made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedDevice {
    /// The root hash, which whoever reads must know.
    pub root: Digest,
    /// Where in the file the superblock is, in bytes.
    pub hash_offset: u64,
}

/// Computes the tree over `data` and writes it to `file` behind a superblock: for
/// [`SealLayout::Appended`] to the file whose first bytes are `data`, otherwise to an empty one.
///
/// If that fails, what was appended is cut off again.
///
/// # Errors
/// [`Error::NotWholeBlocks`], [`Error::Source`], [`Error::Write`], [`Error::TooLarge`] or
/// [`Error::Cancelled`].
pub fn seal(
    data: &dyn ReadAt,
    file: &File,
    layout: SealLayout,
    params: &Params,
    threads: NonZeroUsize,
    progress: &mut Progress<'_>,
) -> Result<SealedDevice, Error> {
    let superblock = Superblock::new(params.clone(), data.size())?;
    let start = match layout {
        SealLayout::Appended => data.size(),
        SealLayout::Sidecar => 0,
    };
    // Data blocks may be smaller than hash blocks.
    let hash_offset = start.next_multiple_of(params.hash_block_size.bytes() as u64);
    let tree = superblock
        .tree_place(hash_offset)
        .ok_or(Error::TooLarge(data.size()))?;
    cut_off_if_failed(file, start, || {
        let mut sink = FileSink::new(file, tree.start);
        let root = build_levels(
            data,
            &params.hashing(),
            &superblock.geometry,
            threads,
            &mut sink,
            progress,
        )?;
        // The superblock comes last: half of a tree is not to be taken for one.
        sink.flush()
            .and_then(|()| file.set_len(tree.end))
            .and_then(|()| file.write_all_at(&superblock.to_bytes(&root), hash_offset))
            .map_err(Error::Write)?;
        Ok(SealedDevice { root, hash_offset })
    })
}
