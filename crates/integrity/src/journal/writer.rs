use verimount_sync::{Mutex, MutexGuard};

use crate::{BadBlock, Error, blocks::Blocks, tag_cache::WriteBack};

use super::{JournalLayout, Pending, Replayed, Ring, committed::Committed};

/// The size of a commit that no flush asked for, in bytes of sections, where memory allows it.
const BATCH: usize = 4 << 20;

/// How much of a write is copied at a time, in bytes: memory then holds what is not committed of a
/// large write only in part.
const PIECE: usize = 1 << 20;

/// Writes blocks to a journal first and in place later (a checkpoint).
///
/// A write is *pending* in memory, then *committed* to sections of the journal, then *in place*.
///
/// - A flushed commit survives a crash; a flush of the volume does no more than this.
/// - No block is written in place before its commit is flushed.
/// - A section is overwritten only when all its blocks and their tags are durable in place.
///
/// Until a block is in place, it is read from memory.
pub(crate) struct Journal {
    layout: JournalLayout,
    sections: usize,
    /// The most journal contents to keep in memory before a checkpoint, in bytes of sections.
    memory: usize,
    pending: Pending,
    /// Held while sections or blocks are written. Readers do not wait for it, nor do writers while
    /// there is room.
    committed: Mutex<Committed>,
}

/// Which blocks a commit includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Only blocks that fill whole sections.
    WholeSections,
    All,
}

impl Journal {
    /// A fully replayed journal that keeps at most `memory` bytes of sections in memory, but one
    /// section at least.
    pub(crate) fn new(ring: Ring, replayed: Replayed, blocks: &Blocks, memory: usize) -> Self {
        Self {
            layout: ring.format.layout,
            sections: ring.sections as usize,
            memory,
            pending: Pending::new(&blocks.geometry.shape),
            committed: Mutex::new(Committed::new(ring, replayed)),
        }
    }

    /// Reads blocks, and returns those that do not match their tags.
    pub(crate) fn read(
        &self,
        blocks: &Blocks,
        sector: u64,
        buf: &mut [u8],
    ) -> Result<Vec<BadBlock>, Error> {
        self.pending.read(blocks, sector, buf)
    }

    /// Adds blocks to be written, and commits some whenever there are many. A crash may leave any of
    /// the blocks written: only a flush promises more.
    pub(crate) fn write(
        &self,
        blocks: &Blocks,
        sector: u64,
        data: &[u8],
        tags: &[u8],
    ) -> Result<(), Error> {
        let shape = blocks.geometry.shape;
        debug_assert_eq!(tags.len(), blocks.tagger.tags_len(data.len()));
        let count = PIECE / shape.block_size.bytes();
        let tag_size = shape.tag_size.bytes();
        let pieces = data.chunks(count * shape.block_size.bytes());
        let firsts = (sector..).step_by(count * shape.block_size.sectors() as usize);
        for ((sector, data), tags) in firsts.zip(pieces).zip(tags.chunks(count * tag_size)) {
            let uncommitted = self.pending.add(sector, data, tags);
            if uncommitted >= self.batch() {
                self.commit(&mut *self.committed(blocks)?, blocks, Extent::WholeSections)?;
            }
        }
        Ok(())
    }

    /// Returns when all earlier writes survive a crash.
    pub(crate) fn flush(&self, blocks: &Blocks) -> Result<(), Error> {
        let mut committed = self.committed(blocks)?;
        self.commit(&mut committed, blocks, Extent::All)?;
        committed.flush()
    }

    /// Writes all blocks in place, durably, and leaves the journal empty.
    pub(crate) fn clear(&self, blocks: &Blocks) -> Result<(), Error> {
        let mut committed = self.committed(blocks)?;
        self.commit(&mut committed, blocks, Extent::All)?;
        committed.bring_to_place(blocks, &self.pending)?;
        committed.settle_all(blocks)?;
        committed.clear()
    }

    /// Runs `action` while no block is written in place.
    pub(crate) fn with_places_unchanged(
        &self,
        blocks: &Blocks,
        action: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _committed = self.committed(blocks)?;
        action()
    }

    /// The number of blocks in a commit that no flush asked for.
    fn batch(&self) -> usize {
        let sections =
            (BATCH.min(self.memory) / self.layout.section_len()).clamp(1, self.most_sections());
        sections * self.layout.entries
    }

    /// The number of sections that may be committed before older ones must be in place.
    fn most_sections(&self) -> usize {
        (self.sections / 2).max(1)
    }

    fn commit(
        &self,
        committed: &mut Committed,
        blocks: &Blocks,
        extent: Extent,
    ) -> Result<(), Error> {
        let per_section = self.layout.entries;
        let multiple = match extent {
            Extent::WholeSections => per_section,
            Extent::All => 1,
        };
        // Leave blocks that arrive meanwhile for the next commit: there might be no end to them.
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
            let held = (committed.held() + sections) * self.layout.section_len();
            if committed.free < sections || held > self.memory {
                committed.bring_to_place(blocks, &self.pending)?;
                // The next writes may complete tag sectors that are only partly known; keep the few
                // journal sections with their blocks until then.
                blocks.tags.write_back(WriteBack::WholeSectors)?;
                committed.settle(blocks, sections.max(self.most_sections()))?;
            }
            committed.write(entries)?;
            self.pending.commit_oldest(count);
        }
    }

    /// Waits for exclusive access to the sections. Fails if a write or flush of the storage has
    /// failed by then.
    fn committed(&self, blocks: &Blocks) -> Result<MutexGuard<'_, Committed>, Error> {
        // After a panic the interrupted step counts as not done.
        let committed = self.committed.lock();
        blocks.storage.check_latch()?;
        Ok(committed)
    }
}
