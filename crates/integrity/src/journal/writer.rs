use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{BadBlock, Error, blocks::Blocks, raw::SECTOR};

use super::{
    Position, Replayed, Ring,
    pending::{Entry, Pending, Sizes},
};

/// How much is committed at once without being asked for, in bytes of sections.
const BATCH: usize = 4 << 20;

/// How much is written at once, in bytes.
const WRITE_SIZE: usize = 1 << 20;

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
    ring: Ring,
    sizes: Sizes,
    pending: Pending,
    /// Held while sections or blocks are written. Readers, and writers as long as there is room, do
    /// not wait for it.
    committer: Mutex<Committer>,
}

struct Committer {
    /// Where the next section goes.
    position: Position,
    /// How many sections from there on may be overwritten.
    free: u32,
    /// The sections that may not, the oldest first.
    committed: VecDeque<Section>,
    /// There are sections that were not flushed.
    is_unflushed: bool,
    /// There are entries in the journal.
    has_entries: bool,
}

/// A section that was written.
struct Section {
    entries: Vec<Entry>,
    /// Its blocks are in place, and only tags may be missing.
    is_in_place: bool,
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
        let shape = blocks.geometry.shape();
        let sizes = Sizes {
            block: shape.block_size.bytes(),
            tag: shape.tag_size.bytes(),
        };
        let committer = Committer {
            position: replayed.position,
            free: ring.sections(),
            committed: VecDeque::new(),
            is_unflushed: false,
            has_entries: replayed.has_entries,
        };
        Self {
            ring,
            sizes,
            pending: Pending::new(sizes),
            committer: Mutex::new(committer),
        }
    }

    /// Reads blocks, and gives those that do not match their tags.
    pub(crate) fn read(
        &self,
        blocks: &Blocks,
        sector: u64,
        buf: &mut [u8],
    ) -> Result<Vec<BadBlock>, Error> {
        let step = self.sizes.block / SECTOR;
        let count = buf.len() / self.sizes.block;
        let newest = self.pending.newest((sector..).step_by(step).take(count));
        let mut bad = Vec::new();
        let mut index = 0;
        for run in newest.chunk_by(|one, other| one.is_some() == other.is_some()) {
            let len = run.len() * self.sizes.block;
            let part = &mut buf[index * self.sizes.block..][..len];
            if run[0].is_some() {
                for (block, entry) in part
                    .chunks_exact_mut(self.sizes.block)
                    .zip(run.iter().flatten())
                {
                    block.copy_from_slice(entry.data());
                }
            } else {
                bad.extend(blocks.read(sector + (index * step) as u64, part)?);
            }
            index += run.len();
        }
        Ok(bad)
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
            true => self.commit(&mut self.committer(), blocks, Extent::WholeSections),
            false => Ok(()),
        }
    }

    /// Returns when everything that was written before survives a crash.
    pub(crate) fn flush(&self, blocks: &Blocks) -> Result<(), Error> {
        let mut committer = self.committer();
        self.commit(&mut committer, blocks, Extent::All)?;
        self.flush_sections(&mut committer)
    }

    /// Brings everything to its place, durably, and leaves a journal without entries.
    pub(crate) fn clear(&self, blocks: &Blocks) -> Result<(), Error> {
        let mut committer = self.committer();
        self.commit(&mut committer, blocks, Extent::All)?;
        self.bring_to_place(&mut committer, blocks)?;
        self.settle_all(&mut committer, blocks)?;
        if committer.has_entries {
            // As if sections without entries had been committed, all around. What is replayed when
            // only some of them are written begins behind the last of them, so it is never old.
            let Position { section, sequence } = committer.position;
            self.ring
                .write_empty(section..self.ring.sections(), sequence)?;
            self.ring.write_empty(0..section, sequence.next())?;
            self.ring.flush()?;
            committer.position.sequence = sequence.next();
            committer.has_entries = false;
        }
        Ok(())
    }

    /// Brings everything that was written before to its place, and lets nobody do the same while
    /// `action` runs.
    pub(crate) fn with_all_in_place<T>(
        &self,
        blocks: &Blocks,
        action: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut committer = self.committer();
        self.commit(&mut committer, blocks, Extent::All)?;
        self.bring_to_place(&mut committer, blocks)?;
        action()
    }

    /// How many blocks are committed at once without being asked for.
    fn batch(&self) -> usize {
        let layout = &self.ring.format().layout;
        let sections = (BATCH / layout.section_len()).clamp(1, self.most_sections());
        sections * layout.entries()
    }

    /// How many sections are committed before older ones must be in place.
    fn most_sections(&self) -> usize {
        (self.ring.sections() as usize / 2).max(1)
    }

    fn commit(
        &self,
        committer: &mut Committer,
        blocks: &Blocks,
        extent: Extent,
    ) -> Result<(), Error> {
        let per_section = self.ring.format().layout.entries();
        let multiple = match extent {
            Extent::WholeSections => per_section,
            Extent::All => 1,
        };
        // Those that come in meanwhile are for the next time: there might be no end to them.
        let mut uncommitted = self.pending.uncommitted();
        loop {
            let most = uncommitted.min(self.most_sections() * per_section);
            let entries = self.pending.take(most, multiple);
            if entries.is_empty() {
                return Ok(());
            }
            uncommitted -= entries.len();
            let sections = entries.len().div_ceil(per_section);
            let kept =
                (committer.committed.len() + sections) * self.ring.format().layout.section_len();
            if (committer.free as usize) < sections || kept > MAX_COMMITTED {
                self.make_room(committer, blocks, sections)?;
            }
            self.write_sections(committer, entries)?;
        }
    }

    /// Writes the sections of a commit.
    fn write_sections(&self, committer: &mut Committer, entries: Vec<Entry>) -> Result<(), Error> {
        committer.is_unflushed = true;
        committer.has_entries = true;
        let format = self.ring.format();
        let len = format.layout.section_len();
        let mut entries = entries.into_iter();
        while entries.len() > 0 {
            // As many as are adjacent: the ring goes on at its beginning.
            let first = committer.position;
            let sections = entries
                .len()
                .div_ceil(format.layout.entries())
                .min((WRITE_SIZE / len).max(1))
                .min((self.ring.sections() - first.section) as usize);
            let mut bytes = vec![0; sections * len];
            for bytes in bytes.chunks_exact_mut(len) {
                let own: Vec<Entry> = entries.by_ref().take(format.layout.entries()).collect();
                format.clear(bytes);
                for (number, entry) in own.iter().enumerate() {
                    format.put(bytes, number, entry.sector, entry.data(), entry.tag());
                }
                format.seal(
                    bytes,
                    committer.position.section,
                    committer.position.sequence,
                );
                committer.position = committer.position.next(self.ring.sections());
                committer.free -= 1;
                committer.committed.push_back(Section {
                    entries: own,
                    is_in_place: false,
                });
            }
            self.ring.write(first.section, &bytes)?;
        }
        Ok(())
    }

    /// Makes at least `sections` sections free.
    fn make_room(
        &self,
        committer: &mut Committer,
        blocks: &Blocks,
        sections: usize,
    ) -> Result<(), Error> {
        self.bring_to_place(committer, blocks)?;
        // Sectors of tags of which only a part is known may yet be completed by the writes that come
        // next; the few sections with their blocks are kept until then.
        blocks.write_back_whole_tag_sectors()?;
        let settled = committer
            .committed
            .iter()
            .take_while(|section| {
                let mut entries = section.entries.iter();
                entries.all(|entry| !blocks.has_dirty_tag(entry.sector))
            })
            .count();
        if committer.free as usize + settled < sections.max(self.most_sections()) {
            return self.settle_all(committer, blocks);
        }
        blocks.flush_storage()?;
        self.settle(committer, settled);
        Ok(())
    }

    /// Writes all blocks that were committed to their place.
    fn bring_to_place(&self, committer: &mut Committer, blocks: &Blocks) -> Result<(), Error> {
        self.flush_sections(committer)?;
        let newest: BTreeMap<u64, &Entry> = committer
            .committed
            .iter()
            .filter(|section| !section.is_in_place)
            .flat_map(|section| &section.entries)
            .map(|entry| (entry.sector, entry))
            .collect();
        let entries: Vec<&Entry> = newest.into_values().collect();
        let block_sectors = (self.sizes.block / SECTOR) as u64;
        for run in entries.chunk_by(|one, other| one.sector + block_sectors == other.sector) {
            for run in run.chunks(WRITE_SIZE / self.sizes.block) {
                let data: Vec<&[u8]> = run.iter().map(|entry| entry.data()).collect();
                let tags: Vec<&[u8]> = run.iter().map(|entry| entry.tag()).collect();
                blocks.write(run[0].sector, &data.concat(), &tags.concat())?;
            }
        }
        for section in committer
            .committed
            .iter_mut()
            .filter(|section| !section.is_in_place)
        {
            section.is_in_place = true;
            self.pending.settle(section.entries.iter());
        }
        Ok(())
    }

    /// Makes all blocks that are in place durable with their tags, and frees their sections.
    fn settle_all(&self, committer: &mut Committer, blocks: &Blocks) -> Result<(), Error> {
        blocks.flush()?;
        self.settle(committer, committer.committed.len());
        Ok(())
    }

    /// Frees the oldest sections, whose blocks are in place.
    fn settle(&self, committer: &mut Committer, sections: usize) {
        committer.committed.drain(..sections);
        committer.free += sections as u32;
    }

    fn flush_sections(&self, committer: &mut Committer) -> Result<(), Error> {
        if committer.is_unflushed {
            self.ring.flush()?;
            committer.is_unflushed = false;
        }
        Ok(())
    }

    // A panic in between leaves sections that were not written yet counted as if they were; nothing
    // is overwritten that should not be.
    fn committer(&self) -> MutexGuard<'_, Committer> {
        self.committer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
