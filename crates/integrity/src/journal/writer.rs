use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{BadBlock, Error, blocks::Blocks};

use super::{JournalLayout, Pending, Replayed, Ring, committed::Committed};

/// How much is committed at once without being asked for, in bytes of sections.
const BATCH: usize = 4 << 20;

/// How much the journal keeps in memory at most before it is brought to its place, in bytes of
/// sections.
const MAX_COMMITTED: usize = 32 << 20;

/// Writes blocks to a journal first and to their place later.
///
/// A write is *pending* in memory, then *committed* to sections of the journal, then *in place*.
///
/// - A commit that was flushed survives a crash; this is all that a flush of the volume does.
/// - Nothing is written to its place before the commit of it was flushed.
/// - A section is written anew only when all blocks in it are in place, with their tags, and that
///   was flushed.
///
/// Until a block is in place it is read from memory.
pub(crate) struct Journal {
    layout: JournalLayout,
    sections: usize,
    pending: Pending,
    /// Held while sections or blocks are written. Readers, and writers as long as there is room, do
    /// not wait for it.
    committed: Mutex<Committed>,
}

/// Which blocks are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Those that fill whole sections.
    WholeSections,
    All,
}

impl Journal {
    /// A journal of which everything has been replayed.
    pub(crate) fn new(ring: Ring, replayed: Replayed, blocks: &Blocks) -> Self {
        Self {
            layout: ring.format().layout,
            sections: ring.sections() as usize,
            pending: Pending::new(blocks.geometry.shape()),
            committed: Mutex::new(Committed::new(ring, replayed)),
        }
    }

    /// Reads blocks, and gives those that do not match their tags.
    pub(crate) fn read(
        &self,
        blocks: &Blocks,
        sector: u64,
        buf: &mut [u8],
    ) -> Result<Vec<BadBlock>, Error> {
        self.pending.read(blocks, sector, buf)
    }

    /// Takes in blocks to be written, and commits some if there are many.
    pub(crate) fn write(
        &self,
        blocks: &Blocks,
        sector: u64,
        data: &[u8],
        tags: &[u8],
    ) -> Result<(), Error> {
        let uncommitted = self.pending.add(sector, data, tags);
        match uncommitted >= self.batch() {
            true => self.commit(&mut *self.committed(blocks)?, blocks, Extent::WholeSections),
            false => Ok(()),
        }
    }

    /// Returns when everything that was written before survives a crash.
    pub(crate) fn flush(&self, blocks: &Blocks) -> Result<(), Error> {
        let mut committed = self.committed(blocks)?;
        self.commit(&mut committed, blocks, Extent::All)?;
        committed.flush()
    }

    /// Brings everything to its place, durably, and leaves a journal without entries.
    pub(crate) fn clear(&self, blocks: &Blocks) -> Result<(), Error> {
        let mut committed = self.committed(blocks)?;
        self.commit(&mut committed, blocks, Extent::All)?;
        committed.bring_to_place(blocks, &self.pending)?;
        committed.settle_all(blocks)?;
        committed.clear()
    }

    /// Lets no block come to its place while `action` runs.
    pub(crate) fn with_places_unchanged(
        &self,
        blocks: &Blocks,
        action: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _committed = self.committed(blocks)?;
        action()
    }

    /// How many blocks are committed at once without being asked for.
    fn batch(&self) -> usize {
        let sections = (BATCH / self.layout.section_len()).clamp(1, self.most_sections());
        sections * self.layout.entries()
    }

    /// How many sections are committed before older ones must be in place.
    fn most_sections(&self) -> usize {
        (self.sections / 2).max(1)
    }

    fn commit(
        &self,
        committed: &mut Committed,
        blocks: &Blocks,
        extent: Extent,
    ) -> Result<(), Error> {
        let per_section = self.layout.entries();
        let multiple = match extent {
            Extent::WholeSections => per_section,
            Extent::All => 1,
        };
        // Those that come in meanwhile are for the next time: there might be no end to them.
        let mut uncommitted = self.pending.uncommitted();
        loop {
            let most = uncommitted.min(self.most_sections() * per_section);
            let entries = self.pending.oldest(most, multiple);
            let count = entries.len();
            if count == 0 {
                return Ok(());
            }
            uncommitted -= count;
            let sections = count.div_ceil(per_section);
            let kept = (committed.len() + sections) * self.layout.section_len();
            if committed.free() < sections || kept > MAX_COMMITTED {
                committed.bring_to_place(blocks, &self.pending)?;
                // Sectors of tags of which only a part is known may yet be completed by the writes
                // that come next; the few sections with their blocks are kept until then.
                blocks.write_back_whole_tag_sectors()?;
                committed.settle(blocks, sections.max(self.most_sections()))?;
            }
            committed.write(entries)?;
            self.pending.commit_oldest(count);
        }
    }

    /// Waits until nobody else writes sections or blocks. Fails if a write or flush of the storage
    /// has failed by then.
    fn committed(&self, blocks: &Blocks) -> Result<MutexGuard<'_, Committed>, Error> {
        // What a panic leaves undone counts as not done.
        let committed = self
            .committed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        blocks.storage.check_latch()?;
        Ok(committed)
    }
}
