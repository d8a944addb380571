//! What is done before a volume can be used: what a crash has left is put in order, and the mode's
//! own state is begun.

use std::time::Duration;

use crate::{
    Error, Mode, Unsupported,
    bitmap::{Bitmap, BitmapLayout},
    blocks::Blocks,
    journal::{Journal, Replayed, Ring, replay},
    recalculation::Recalculation,
};

use super::{SavedSuperblock, consistency::Consistency};

/// A volume of which only this is missing for it to be used.
pub(super) struct Unprepared<'a> {
    pub(super) blocks: &'a Blocks,
    pub(super) ring: Ring,
    pub(super) superblock: &'a SavedSuperblock,
    pub(super) may_recalculate: bool,
    pub(super) bitmap_clear_interval: Duration,
}

impl Unprepared<'_> {
    pub(super) fn prepare(self, mode: Mode) -> Result<(Consistency, Recalculation), Error> {
        let is_dirty = self.superblock.get().has_dirty_bitmap();
        match mode {
            Mode::RecoveryUnverified => {
                let recalculation = self.recalculation(self.end());
                Ok((Consistency::RecoveryUnverified, recalculation))
            }
            Mode::Bitmap if is_dirty => self.resume_bitmap(),
            Mode::Bitmap => self.begin_bitmap(),
            Mode::Journal | Mode::Direct => {
                let replayed = match is_dirty {
                    true => self.leave_bitmap()?,
                    false => {
                        self.check_recalculation()?;
                        replay(&self.ring, self.blocks, mode == Mode::Journal)?
                    }
                };
                let position = self.superblock.get().recalculation_sector();
                let recalculation = self.recalculation(position.unwrap_or(self.end()));
                let consistency = match mode {
                    Mode::Journal => {
                        let journal = Journal::new(self.ring, replayed, self.blocks);
                        Consistency::Journal(Box::new(journal))
                    }
                    _ => Consistency::Direct,
                };
                Ok((consistency, recalculation))
            }
        }
    }

    /// Makes the journal's place a bitmap. If all tags are right, what is there in between does no
    /// harm, whatever it is taken for; else it must not be taken for a bitmap.
    fn begin_bitmap(self) -> Result<(Consistency, Recalculation), Error> {
        self.check_may_recalculate()?;
        replay(&self.ring, self.blocks, false)?;
        let layout = BitmapLayout::new(&self.blocks.geometry)?;
        let position = self.superblock.get().recalculation_sector();
        self.superblock.update(|superblock| {
            superblock.dirty_bitmap = true;
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if position.is_some() {
                superblock.forget_bitmap();
            }
        })?;
        let bits = position.map_or_else(|| layout.none(), |position| layout.all_from(position));
        let storage = self.blocks.storage.clone();
        let bitmap = Bitmap::create(storage, layout, bits, self.bitmap_clear_interval)?;
        if position.is_some() {
            self.superblock.update(|superblock| {
                superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            })?;
        }
        let recalculation = self.recalculation(position.unwrap_or(self.end()));
        Ok((Consistency::Bitmap(Box::new(bitmap)), recalculation))
    }

    /// Goes on with a bitmap that nobody has finished: what was being written when the machine
    /// crashed has to get new tags.
    fn resume_bitmap(self) -> Result<(Consistency, Recalculation), Error> {
        self.check_may_recalculate()?;
        let layout = self.stored_layout();
        let (layout, bits) = match layout {
            Some(layout) => (layout, layout.read(&self.blocks.storage)?),
            None => {
                let layout = BitmapLayout::new(&self.blocks.geometry)?;
                (layout, layout.all_from(0))
            }
        };
        let regions = bits.clone();
        let storage = self.blocks.storage.clone();
        let bitmap = Bitmap::create(storage, layout, bits, self.bitmap_clear_interval)?;
        let is_clean = regions.is_empty();
        self.superblock.update(|superblock| {
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if !is_clean {
                superblock.recalculation = Some(0);
            }
        })?;
        let position = if is_clean { self.end() } else { 0 };
        let recalculation = Recalculation::new(position, self.end(), Some((layout, regions)));
        Ok((Consistency::Bitmap(Box::new(bitmap)), recalculation))
    }

    /// Makes the place of a bitmap that nobody has finished a journal again. Without the bitmap
    /// nobody knows which regions are dirty, so all tags will be computed anew.
    fn leave_bitmap(&self) -> Result<Replayed, Error> {
        let is_clean = match self.stored_layout() {
            Some(layout) => layout.read(&self.blocks.storage)?.is_empty(),
            None => false,
        };
        if !is_clean {
            self.check_may_recalculate()?;
            // Before the bitmap is gone.
            self.superblock.update(|superblock| {
                superblock.recalculation = Some(0);
                superblock.forget_bitmap();
            })?;
        }
        let replayed = self.ring.initialise()?;
        self.superblock.update(|superblock| {
            superblock.dirty_bitmap = false;
            superblock.log2_blocks_per_bitmap_bit = 0;
        })?;
        Ok(replayed)
    }

    fn stored_layout(&self) -> Option<BitmapLayout> {
        let log2 = self.superblock.get().log2_blocks_per_bitmap_bit;
        BitmapLayout::with_blocks_per_bit(&self.blocks.geometry, log2)
    }

    /// Refuses a volume whose tags are being computed anew, if that must not be.
    fn check_recalculation(&self) -> Result<(), Error> {
        match self.superblock.get().recalculation_sector() {
            Some(_) => self.check_may_recalculate(),
            None => Ok(()),
        }
    }

    fn check_may_recalculate(&self) -> Result<(), Error> {
        match self.may_recalculate {
            true => Ok(()),
            false => Err(Unsupported::KeyedRecalculation.into()),
        }
    }

    fn recalculation(&self, position: u64) -> Recalculation {
        Recalculation::new(position, self.end(), None)
    }

    fn end(&self) -> u64 {
        self.blocks.geometry.provided_data_sectors()
    }
}
