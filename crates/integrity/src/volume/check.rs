use std::{num::NonZeroUsize, ops::Range};

use thiserror::Error;
use verimount_source::{Scratch, in_order};

use crate::{
    BadBlock, Error, Mode, Progress, SECTOR, Volume, blocks::parts, range_lock::Access, raw,
};

/// The number of sectors to check at a time, as long as all of them can be read.
const CHUNK: u64 = 2048;

/// A range of a volume's sectors that fails verification or cannot be read.
#[derive(Debug)]
pub struct BadRange {
    /// The sectors; whole blocks.
    pub sectors: Range<u64>,
    /// The reason for the first block.
    pub reason: BadReason,
}

/// Why a block is bad.
#[derive(Debug, Error)]
pub enum BadReason {
    /// The block does not match its tag.
    #[error(transparent)]
    Mismatch(BadBlock),
    /// The block or its tag cannot be read.
    #[error(transparent)]
    Unreadable(Error),
}

impl Volume {
    /// Scrubs the volume: verifies all blocks with up to `threads` threads, and reports every bad
    /// range to `found`, in order. `progress` gets the number of bytes checked since the last call,
    /// and can cancel.
    ///
    /// # Errors
    /// [`Error::Unverified`] in [`Mode::RecoveryUnverified`]; [`Error::Cancelled`].
    pub fn check(
        &self,
        threads: NonZeroUsize,
        found: &mut dyn FnMut(BadRange),
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        if self.mode() == Mode::RecoveryUnverified {
            return Err(Error::Unverified);
        }
        let end = self.blocks.geometry.provided_data_sectors;
        let chunk = |number: u64| number * CHUNK..end.min((number + 1) * CHUNK);
        let mut open: Option<BadRange> = None;
        let result = in_order(
            end.div_ceil(CHUNK),
            threads,
            |number, scratch| self.check_chunk(chunk(number), scratch),
            |number, bad| {
                for next in bad {
                    match &mut open {
                        Some(last) if last.continues_in(&next) => {
                            last.sectors.end = next.sectors.end;
                        }
                        _ => open.replace(next).into_iter().for_each(&mut *found),
                    }
                }
                let sectors = chunk(number);
                if progress((sectors.end - sectors.start) * SECTOR).is_break() {
                    Err(Error::Cancelled)
                } else {
                    Ok(())
                }
            },
        );
        open.into_iter().for_each(found);
        result
    }

    /// Sets the tags of the blocks in these sectors to match their current data, without verifying
    /// it.
    ///
    /// # Errors
    /// [`Error::PastEnd`] for sectors that are not whole blocks of the volume, and as
    /// [`Self::write_at`].
    pub fn accept_unverified(&self, sectors: Range<u64>) -> Result<(), Error> {
        let block_sectors = self.blocks.geometry.shape.block_size.sectors();
        let is_whole = [sectors.start, sectors.end]
            .iter()
            .all(|sector| sector.is_multiple_of(block_sectors));
        let end = self.blocks.geometry.provided_data_sectors;
        if !is_whole || sectors.start > sectors.end || sectors.end > end {
            return Err(Error::PastEnd {
                offset: sectors.start.saturating_mul(SECTOR),
                len: sectors
                    .end
                    .saturating_sub(sectors.start)
                    .saturating_mul(SECTOR),
                size: self.size(),
            });
        }
        for chunk in parts(sectors, CHUNK) {
            let start = chunk.start;
            let _guard = self.lock_to_change(chunk.clone())?;
            let mut data = vec![0; (chunk.end - chunk.start) as usize * raw::SECTOR];
            // Mismatches are ignored on purpose.
            self.find_bad_blocks(start, &mut data)?;
            let tags = self.blocks.tagger.tags(start, &data);
            self.consistency.write(&self.blocks, start, &data, &tags)?;
        }
        self.flush()
    }

    /// The bad blocks of a chunk. It is read at once, or block by block if that fails.
    fn check_chunk(&self, sectors: Range<u64>, scratch: &mut Scratch) -> Vec<BadRange> {
        if let Ok(bad) = self.check_sectors(sectors.clone(), scratch) {
            return bad;
        }
        let block_sectors = self.blocks.geometry.shape.block_size.sectors();
        sectors
            .step_by(block_sectors as usize)
            .map(|start| start..start + block_sectors)
            .flat_map(|block| {
                self.check_sectors(block.clone(), scratch)
                    .unwrap_or_else(|error| {
                        vec![BadRange {
                            sectors: block,
                            reason: BadReason::Unreadable(error),
                        }]
                    })
            })
            .collect()
    }

    fn check_sectors(
        &self,
        sectors: Range<u64>,
        scratch: &mut Scratch,
    ) -> Result<Vec<BadRange>, Error> {
        let _guard = self.locks.lock(sectors.clone(), Access::Shared);
        let buf = scratch.grown((sectors.end - sectors.start) as usize * raw::SECTOR);
        let bad = self.find_bad_blocks(sectors.start, buf)?;
        let block_sectors = self.blocks.geometry.shape.block_size.sectors();
        Ok(bad
            .into_iter()
            .map(|block| BadRange {
                sectors: block.sector..block.sector + block_sectors,
                reason: BadReason::Mismatch(block),
            })
            .collect())
    }
}

impl BadRange {
    fn continues_in(&self, next: &Self) -> bool {
        self.sectors.end == next.sectors.start
            && matches!(
                (&self.reason, &next.reason),
                (BadReason::Mismatch(_), BadReason::Mismatch(_))
                    | (BadReason::Unreadable(_), BadReason::Unreadable(_))
            )
    }
}
