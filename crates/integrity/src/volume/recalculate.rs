use std::ops::Range;

use crate::{Error, Progress, SECTOR, Volume, raw};

use super::consistency::Consistency;

/// How many sectors get new tags at a time.
const STEP: u64 = 2048;

/// How often it is noted how far this has come, in steps: every 512 MiB.
const STEPS_BETWEEN_SAVES: u32 = 512;

impl Volume {
    /// The first sector of which the tag may be wrong because it is yet to be computed anew; none
    /// if all blocks are checked.
    pub fn recalculation_sector(&self) -> Option<u64> {
        self.recalculation.position()
    }

    /// Computes the tags anew that a crash in bitmap mode, or somebody's request, has left to be.
    /// Until then the blocks concerned are read without being checked.
    ///
    /// The volume can be used meanwhile. `progress` is told how many bytes more have their tags, and
    /// can end it there; it goes on from about there the next time.
    ///
    /// # Errors
    /// [`Error::Cancelled`], [`Error::ReadOnly`], [`Error::Source`], [`Error::Latched`].
    pub fn recalculate(&self, progress: &mut Progress<'_>) -> Result<(), Error> {
        if self.recalculation.position().is_none() {
            return Ok(());
        }
        let mut steps = 0;
        while let Some(range) = self.recalculation.next(STEP) {
            let _guard = self.lock_to_change(range.clone())?;
            match &self.consistency {
                // What is newer in the journal brings its tags with it.
                Consistency::Journal(journal) => {
                    journal
                        .with_places_unchanged(&self.blocks, || self.recalculate_range(&range))?;
                }
                _ => self.recalculate_range(&range)?,
            }
            self.recalculation.advance(range.end);
            steps += 1;
            if steps % STEPS_BETWEEN_SAVES == 0 {
                self.save_recalculation()?;
            }
            if progress((range.end - range.start) * SECTOR).is_break() {
                self.save_recalculation()?;
                return Err(Error::Cancelled);
            }
        }
        self.save_recalculation()
    }

    fn recalculate_range(&self, range: &Range<u64>) -> Result<(), Error> {
        let mut data = vec![0; (range.end - range.start) as usize * raw::SECTOR];
        // What was discarded stays so: with a tag of what the storage has there it would come back.
        let discarded: Vec<u64> = match self.allows_discards {
            true => {
                let bad = self.blocks.read(range.start, &mut data)?;
                let discarded = bad.iter().filter(|block| block.is_discarded());
                discarded.map(|block| block.sector).collect()
            }
            false => {
                self.blocks.read_unverified(range.start, &mut data)?;
                Vec::new()
            }
        };
        let mut tags = self.blocks.tagger.tags(range.start, &data);
        let mark = self.blocks.tagger.discarded(1);
        let block_sectors = self.blocks.geometry.shape().block_size.sectors();
        for sector in discarded {
            let number = ((sector - range.start) / block_sectors) as usize;
            tags[number * mark.len()..][..mark.len()].copy_from_slice(&mark);
        }
        self.blocks.set_tags(range.start, &tags)
    }

    /// Notes in the superblock how far it has come, when the tags up to there are durable.
    fn save_recalculation(&self) -> Result<(), Error> {
        let end = self.blocks.geometry.provided_data_sectors();
        let position = self.recalculation.position().unwrap_or(end);
        self.blocks.flush()?;
        self.superblock
            .update(|superblock| superblock.recalculation = Some(position))
    }
}
