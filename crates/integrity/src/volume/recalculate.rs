use std::ops::Range;

use crate::{Error, Progress, SECTOR, Volume, raw};

use super::consistency::Consistency;

/// How many sectors are recalculated at a time.
const STEP: u64 = 2048;

/// The number of steps between saves of the position: every 512 MiB.
const STEPS_BETWEEN_SAVES: u32 = 512;

impl Volume {
    /// The first sector whose tag may be wrong because it has not been recalculated; `None` if all
    /// blocks are checked.
    pub fn recalculation_sector(&self) -> Option<u64> {
        self.recalculation.position()
    }

    /// Recalculates the tags that a crash in bitmap mode or another tool left marked for
    /// recalculation. Until then these blocks are read without verification.
    ///
    /// The volume can be used meanwhile. `progress` gets the number of bytes recalculated since the
    /// last call, and can cancel; the next call continues from about there. Calls of several threads run one after
    /// the other.
    ///
    /// # Errors
    /// [`Error::Cancelled`], [`Error::ReadOnly`], [`Error::Source`], [`Error::Latched`].
    pub fn recalculate(&self, progress: &mut Progress<'_>) -> Result<(), Error> {
        let _working = self.recalculation.work();
        if self.recalculation.position().is_none() {
            return Ok(());
        }
        let mut steps = 0;
        while let Some(range) = self.recalculation.next(STEP) {
            let _guard = self.lock_to_change(range.clone())?;
            match &self.consistency {
                // Newer blocks in the journal have their own tags.
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
        // Discarded blocks stay discarded: a tag computed from their data would bring old contents
        // back.
        let discarded: Vec<u64> = if self.allows_discards {
            let bad = self.blocks.read(range.start, &mut data)?;
            let discarded = bad.iter().filter(|block| block.is_discarded());
            discarded.map(|block| block.sector).collect()
        } else {
            self.blocks.read_unverified(range.start, &mut data)?;
            Vec::new()
        };
        let mut tags = self.blocks.tagger.tags(range.start, &data);
        let mark = self.blocks.tagger.discarded(1);
        let block_sectors = self.blocks.geometry.shape.block_size.sectors();
        for sector in discarded {
            let number = ((sector - range.start) / block_sectors) as usize;
            tags[number * mark.len()..][..mark.len()].copy_from_slice(&mark);
        }
        self.blocks.set_tags(range.start, &tags)
    }

    /// Saves the position in the superblock, after making the tags up to there durable.
    fn save_recalculation(&self) -> Result<(), Error> {
        let end = self.blocks.geometry.provided_data_sectors;
        let position = self.recalculation.position().unwrap_or(end);
        self.blocks.flush()?;
        self.superblock
            .update(|superblock| superblock.recalculation = Some(position))
    }
}
