//! Preparing a volume for use: recovery from a crash, and the initial state of the mode.

use crate::{
    Error, Mode, OpenOptions, Unsupported, Usage,
    bitmap::{Bitmap, BitmapLayout},
    bits::Bits,
    blocks::Blocks,
    journal::{Journal, Pending, Replayed, Ring, Scan, hold, replay},
    recalculation::Recalculation,
};

use super::{SavedSuperblock, consistency::Consistency};

/// The minimum number of blocks to probe, if the volume has that many.
const PROBES: u64 = 16;

/// The minimum number of mismatching probes to refuse a volume: fewer blocks may just be damaged.
const LEAST_PROBES: u64 = 4;

/// An opened volume before its recovery.
pub(super) struct Unprepared<'a> {
    pub(super) blocks: &'a Blocks,
    pub(super) ring: Ring,
    pub(super) superblock: &'a SavedSuperblock,
    pub(super) may_recalculate: bool,
    pub(super) options: &'a OpenOptions,
}

impl Unprepared<'_> {
    pub(super) fn prepare(self) -> Result<(Consistency, Recalculation), Error> {
        let is_dirty = self.superblock.get().dirty_bitmap;
        match self.options.mode {
            Mode::RecoveryUnverified => {
                let recalculation = Recalculation::new(self.end(), self.end(), None);
                Ok((Consistency::RecoveryUnverified, recalculation))
            }
            Mode::ReadOnly => self.read_only(is_dirty),
            Mode::Bitmap if is_dirty => self.resume_bitmap(),
            Mode::Bitmap => self.begin_bitmap(),
            mode @ (Mode::Journal | Mode::Direct) => {
                let replayed = if is_dirty {
                    self.leave_bitmap()?
                } else {
                    self.check_recalculation()?;
                    self.replay(mode == Mode::Journal)?
                };
                let recalculation = self.recalculation();
                let consistency = match mode {
                    Mode::Journal => {
                        let memory = self.options.journal_bytes;
                        let journal = Journal::new(self.ring, replayed, self.blocks, memory);
                        Consistency::Journal(Box::new(journal))
                    }
                    _ => Consistency::Direct,
                };
                Ok((consistency, recalculation))
            }
        }
    }

    /// Reads the journal, or the bitmap that a crash has left, into memory, and changes neither.
    fn read_only(self, is_dirty: bool) -> Result<(Consistency, Recalculation), Error> {
        if is_dirty {
            self.check_may_recalculate()?;
            let (layout, bits) = self.stored_bits()?;
            let position = if bits.is_empty() { self.end() } else { 0 };
            let held = Pending::new(&self.blocks.geometry.shape);
            let recalculation = Recalculation::new(position, self.end(), Some((layout, bits)));
            return Ok((Consistency::ReadOnly(held), recalculation));
        }
        self.check_recalculation()?;
        let header = self.blocks.storage.devices().header();
        let held = if header.is_some_and(|header| header.ignores_journal) {
            Pending::new(&self.blocks.geometry.shape)
        } else {
            hold(&self.scan()?, &self.ring, self.blocks)?
        };
        Ok((Consistency::ReadOnly(held), self.recalculation()))
    }

    /// Replaces the journal by a bitmap. While that is in progress, the area may be misread as a
    /// bitmap: this is harmless if all tags are valid, and must be prevented otherwise.
    fn begin_bitmap(self) -> Result<(Consistency, Recalculation), Error> {
        self.check_may_recalculate()?;
        self.replay(false)?;
        let layout = BitmapLayout::new(&self.blocks.geometry)?;
        let position = self.superblock.get().recalculation_sector();
        self.superblock.update(|superblock| {
            superblock.dirty_bitmap = true;
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if position.is_some() {
                superblock.forget_bitmap();
            }
        })?;
        let bits = layout.all_from(position.unwrap_or(u64::MAX));
        let bitmap = self.bitmap(layout, bits)?;
        if position.is_some() {
            self.superblock.update(|superblock| {
                superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            })?;
        }
        Ok((bitmap, self.recalculation()))
    }

    /// Resumes a dirty bitmap: the tags of regions that were being written during a crash must be
    /// recalculated.
    fn resume_bitmap(self) -> Result<(Consistency, Recalculation), Error> {
        self.check_may_recalculate()?;
        let (layout, bits) = self.stored_bits()?;
        let bitmap = self.bitmap(layout, bits.clone())?;
        let is_clean = bits.is_empty();
        self.superblock.update(|superblock| {
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if !is_clean {
                superblock.recalculation = Some(0);
            }
        })?;
        let position = if is_clean { self.end() } else { 0 };
        let recalculation = Recalculation::new(position, self.end(), Some((layout, bits)));
        Ok((bitmap, recalculation))
    }

    /// The state of bitmap mode with these bits, which are stored.
    fn bitmap(&self, layout: BitmapLayout, bits: Bits) -> Result<Consistency, Error> {
        let storage = self.blocks.storage.clone();
        let interval = self.options.bitmap_clear_interval;
        let bitmap = Bitmap::create(storage, layout, bits, interval)?;
        Ok(Consistency::Bitmap(Box::new(bitmap)))
    }

    /// The bitmap that a crash has left; all bits if it cannot be used.
    fn stored_bits(&self) -> Result<(BitmapLayout, Bits), Error> {
        let (layout, bits) = match self.stored_layout() {
            Some(layout) => (layout, layout.read(&self.blocks.storage)?),
            None => {
                let layout = BitmapLayout::new(&self.blocks.geometry)?;
                (layout, layout.all_from(0))
            }
        };
        self.probe(|sector| !bits.contains(layout.bit(sector)))?;
        Ok((layout, bits))
    }

    /// Replaces a dirty bitmap by a journal. Without the bitmap the dirty regions are unknown, so
    /// all tags will be recalculated.
    fn leave_bitmap(&self) -> Result<Replayed, Error> {
        let is_clean = match self.stored_layout() {
            Some(layout) => {
                let bits = layout.read(&self.blocks.storage)?;
                self.probe(|sector| !bits.contains(layout.bit(sector)))?;
                bits.is_empty()
            }
            None => false,
        };
        if !is_clean {
            self.check_may_recalculate()?;
            // This must be durable before the bitmap is overwritten.
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

    /// Replays the journal.
    fn replay(&self, goes_on: bool) -> Result<Replayed, Error> {
        replay(&self.scan()?, &self.ring, self.blocks, goes_on)
    }

    /// Looks at the journal.
    fn scan(&self) -> Result<Scan, Error> {
        let scan = Scan::new(&self.ring)?;
        // Blocks with journal entries may be partly written in place, so do not probe then. Replay
        // verifies the entries themselves.
        if scan.is_empty {
            let position = self.superblock.get().recalculation_sector();
            self.probe(|sector| position.is_none_or(|position| sector < position))?;
        }
        Ok(scan)
    }

    /// Probes a few blocks spread over the volume, and fails if none matches its tag. `is_known`
    /// returns whether a sector's tag must be valid even after a crash.
    fn probe(&self, is_known: impl Fn(u64) -> bool) -> Result<(), Error> {
        let block_size = self.blocks.geometry.shape.block_size;
        let mut buf = vec![0; block_size.bytes()];
        let mut tried = 0;
        let step = (self.blocks.geometry.blocks() / PROBES).max(1) * block_size.sectors();
        for sector in (0..self.end()).step_by(step as usize) {
            if !self.options.probe || !is_known(sector) {
                continue;
            }
            tried += 1;
            // An unreadable or discarded block says nothing about the algorithm.
            match self.blocks.read(sector, &mut buf) {
                Ok(bad) if bad.iter().any(|block| !block.is_discarded()) => {}
                _ => return Ok(()),
            }
        }
        if tried < LEAST_PROBES {
            Ok(())
        } else {
            Err(Usage::NothingMatches.into())
        }
    }

    fn stored_layout(&self) -> Option<BitmapLayout> {
        let log2 = self.superblock.get().log2_blocks_per_bitmap_bit;
        BitmapLayout::with_blocks_per_bit(&self.blocks.geometry, log2)
    }

    /// Refuses a volume with a pending recalculation that is not allowed.
    fn check_recalculation(&self) -> Result<(), Error> {
        match self.superblock.get().recalculation_sector() {
            Some(_) => self.check_may_recalculate(),
            None => Ok(()),
        }
    }

    fn check_may_recalculate(&self) -> Result<(), Error> {
        if self.may_recalculate {
            Ok(())
        } else {
            Err(Unsupported::KeyedRecalculation.into())
        }
    }

    /// The recalculation that the superblock notes.
    fn recalculation(&self) -> Recalculation {
        let position = self.superblock.get().recalculation_sector();
        Recalculation::new(position.unwrap_or(self.end()), self.end(), None)
    }

    fn end(&self) -> u64 {
        self.blocks.geometry.provided_data_sectors
    }
}
