use std::collections::{BTreeMap, VecDeque};

use crate::{Error, blocks::Blocks, raw::SECTOR};

use super::{
    Position, Replayed, Ring,
    pending::{Entry, Pending},
};

/// How much is written at once, in bytes.
const WRITE_SIZE: usize = 1 << 20;

/// The sections that hold what is not durable in place yet, and what comes behind them.
pub(super) struct Committed {
    ring: Ring,
    /// Where the next section goes.
    position: Position,
    /// How many sections from there on may be overwritten.
    free: usize,
    /// The sections that may not, the oldest first.
    sections: VecDeque<Section>,
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

impl Committed {
    /// A journal of which everything has been replayed.
    pub(super) fn new(ring: Ring, replayed: Replayed) -> Self {
        Self {
            position: replayed.position,
            free: ring.sections() as usize,
            ring,
            sections: VecDeque::new(),
            is_unflushed: false,
            has_entries: replayed.has_entries,
        }
    }

    /// How many sections there are.
    pub(super) fn len(&self) -> usize {
        self.sections.len()
    }

    /// How many sections may be overwritten.
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Writes blocks to as many sections as they need, which must be free.
    pub(super) fn write(&mut self, entries: Vec<Entry>) -> Result<(), Error> {
        self.is_unflushed = true;
        self.has_entries = true;
        let format = self.ring.format();
        let len = format.layout.section_len();
        let mut entries = entries.into_iter();
        while entries.len() > 0 {
            // As many as are adjacent: the ring goes on at its beginning.
            let first = self.position;
            let sections = entries
                .len()
                .div_ceil(format.layout.entries())
                .min((WRITE_SIZE / len).max(1))
                .min((self.ring.sections() - first.section) as usize);
            let mut bytes = vec![0; sections * len];
            let mut position = first;
            let mut written = Vec::with_capacity(sections);
            for bytes in bytes.chunks_exact_mut(len) {
                let own: Vec<Entry> = entries.by_ref().take(format.layout.entries()).collect();
                format.clear(bytes);
                for (number, entry) in own.iter().enumerate() {
                    format.put(bytes, number, entry.sector, entry.data(), entry.tag());
                }
                format.seal(bytes, position.section, position.sequence);
                position = position.next(self.ring.sections());
                written.push(Section {
                    entries: own,
                    is_in_place: false,
                });
            }
            self.ring.write(first.section, &bytes)?;
            self.position = position;
            self.free -= sections;
            self.sections.extend(written);
        }
        // The storage then works while the next blocks come in.
        self.ring.begin_flush()
    }

    /// Makes all sections durable.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        if self.is_unflushed {
            self.ring.flush()?;
            self.is_unflushed = false;
        }
        Ok(())
    }

    /// Writes all blocks to their place, and lets `pending` forget them.
    pub(super) fn bring_to_place(
        &mut self,
        blocks: &Blocks,
        pending: &Pending,
    ) -> Result<(), Error> {
        self.flush()?;
        let newest: BTreeMap<u64, &Entry> = self
            .sections
            .iter()
            .filter(|section| !section.is_in_place)
            .flat_map(|section| &section.entries)
            .map(|entry| (entry.sector, entry))
            .collect();
        let entries: Vec<&Entry> = newest.into_values().collect();
        let block_size = blocks.geometry.shape().block_size.bytes();
        let block_sectors = (block_size / SECTOR) as u64;
        for run in entries.chunk_by(|one, other| one.sector + block_sectors == other.sector) {
            for run in run.chunks(WRITE_SIZE / block_size) {
                let data: Vec<&[u8]> = run.iter().map(|entry| entry.data()).collect();
                let tags: Vec<&[u8]> = run.iter().map(|entry| entry.tag()).collect();
                blocks.write(run[0].sector, &data.concat(), &tags.concat())?;
            }
        }
        for section in &mut self.sections {
            if !section.is_in_place {
                section.is_in_place = true;
                pending.settle(section.entries.iter());
            }
        }
        Ok(())
    }

    /// Frees the oldest sections, as far as the storage has the tags of all blocks in them too, if
    /// at least `least` sections are free then; else writes the tags that are missing, and frees
    /// all. All blocks must be in place.
    pub(super) fn settle(&mut self, blocks: &Blocks, least: usize) -> Result<(), Error> {
        let settled = self
            .sections
            .iter()
            .take_while(|section| {
                let mut entries = section.entries.iter();
                entries.all(|entry| !blocks.has_dirty_tag(entry.sector))
            })
            .count();
        if self.free + settled < least {
            return self.settle_all(blocks);
        }
        blocks.flush_storage()?;
        self.drop_oldest(settled);
        Ok(())
    }

    /// Makes all blocks, which are in place, durable with their tags, and frees their sections.
    pub(super) fn settle_all(&mut self, blocks: &Blocks) -> Result<(), Error> {
        blocks.flush()?;
        self.drop_oldest(self.sections.len());
        Ok(())
    }

    /// Leaves a journal without entries, durably. All sections must be free.
    pub(super) fn clear(&mut self) -> Result<(), Error> {
        if self.has_entries {
            // As if sections without entries had been committed, all around. What is replayed when
            // only some of them are written begins behind the last of them, so it is never old.
            let Position { section, sequence } = self.position;
            self.ring
                .write_empty(section..self.ring.sections(), sequence)?;
            self.ring.write_empty(0..section, sequence.next())?;
            self.ring.flush()?;
            self.position.sequence = sequence.next();
            self.has_entries = false;
        }
        Ok(())
    }

    fn drop_oldest(&mut self, sections: usize) {
        self.sections.drain(..sections);
        self.free += sections;
    }
}
