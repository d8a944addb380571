use std::{fs::File, os::unix::fs::FileExt, path::Path, process::Command};

use anyhow::{Context, Result};
use rustix::fs::sync;
use verimount_support::command;

/// The block size of the file systems made here, in bytes.
pub(super) const BLOCK: u64 = 4096;

/// The positions of a file's blocks in its file system, including those after its end.
pub(super) struct Extents(Vec<Extent>);

/// A run of blocks. All fields are in blocks.
struct Extent {
    logical: u64,
    physical: u64,
    count: u64,
}

impl Extents {
    /// The positions of the blocks of `file`, after it was synced.
    pub(super) fn of(file: &Path) -> Result<Self> {
        sync();
        let mut filefrag = Command::new("filefrag");
        let table = command::stdout(filefrag.arg("-v").arg(format!("-b{BLOCK}")).arg(file))?;
        // `   0:        0..       2:   42108409..  42108411:      3:             last,eof`
        let extents = table.lines().filter_map(|line| {
            let mut columns = line.split(':').map(str::trim);
            let _: u64 = columns.next()?.parse().ok()?;
            let mut first = || columns.next()?.split("..").next()?.trim().parse().ok();
            let (logical, physical) = (first()?, first()?);
            let count = columns.next()?.parse().ok()?;
            Some(Extent {
                logical,
                physical,
                count,
            })
        });
        Ok(Self(extents.collect()))
    }

    /// The position of the byte at `offset` in the file system, if it is stored.
    pub(super) fn place(&self, offset: u64) -> Option<u64> {
        let block = offset / BLOCK;
        let extent = self
            .0
            .iter()
            .find(|extent| (extent.logical..extent.logical + extent.count).contains(&block))?;
        Some((extent.physical + block - extent.logical) * BLOCK + offset % BLOCK)
    }

    /// The content of the file as stored in the file system `image`, to the end of its last block, with
    /// zeros for holes.
    pub(super) fn read(&self, image: &Path) -> Result<Vec<u8>> {
        let image = File::open(image)?;
        let ends = self.0.iter().map(|extent| extent.logical + extent.count);
        let blocks = ends.max().context("the file has no blocks")?;
        let mut stored = vec![0; usize::try_from(blocks * BLOCK)?];
        for (offset, block) in (0..)
            .step_by(BLOCK as usize)
            .zip(stored.chunks_mut(BLOCK as usize))
        {
            if let Some(place) = self.place(offset) {
                image.read_exact_at(block, place)?;
            }
        }
        Ok(stored)
    }
}
