use std::collections::{BTreeMap, VecDeque};

use crate::{Error, blocks::Blocks, raw::SECTOR};

use super::{
    Position, Replayed, Ring,
    pending::{Entry, Pending},
};

/// The maximum size of a write, in bytes.
const WRITE_SIZE: usize = 1 << 20;

/// The journal sections that hold blocks not yet durable in place, and the position for the next
/// one.
pub(super) struct Committed {
    ring: Ring,
    /// The position of the next section to write.
    position: Position,
    /// How many sections from `position` on may be overwritten.
    free: usize,
    /// The sections that may not be overwritten, oldest first.
    sections: VecDeque<Section>,
    /// Some sections have not been flushed.
    is_unflushed: bool,
    /// The journal on the device has entries.
    has_entries: bool,
}

/// A section that was written to the journal.
struct Section {
    entries: Vec<Entry>,
    /// Its blocks have been written in place; some tags may still be only in the cache.
    is_in_place: bool,
}

impl Committed {
    /// A fully replayed journal.
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

    /// The number of sections that may not be overwritten.
    pub(super) fn len(&self) -> usize {
        self.sections.len()
    }

    /// The number of sections that may be overwritten.
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Writes blocks to as many sections as they need. Enough sections must be free.
    pub(super) fn write(&mut self, entries: Vec<Entry>) -> Result<(), Error> {
        self.is_unflushed = true;
        self.has_entries = true;
        let format = self.ring.format();
        let len = format.layout.section_len();
        let mut entries = entries.into_iter();
        while entries.len() > 0 {
            // Only adjacent sections in one write: the ring wraps at its end.
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
        // The storage can then write while the next blocks arrive.
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

    /// Checkpoints: writes all blocks in place, and drops them from `pending`.
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

    /// Frees the oldest sections whose tags are all written back. If fewer than `least` sections
    /// would be free, writes back the remaining tags and frees all sections. All blocks must be in
    /// place.
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

    /// Makes all blocks and their tags durable, and frees all sections. All blocks must be in
    /// place.
    pub(super) fn settle_all(&mut self, blocks: &Blocks) -> Result<(), Error> {
        blocks.flush()?;
        self.drop_oldest(self.sections.len());
        Ok(())
    }

    /// Makes the journal on the device empty, durably. All sections must be free.
    pub(super) fn clear(&mut self) -> Result<(), Error> {
        if self.has_entries {
            // Equivalent to committing empty sections once around the ring. If a crash leaves only
            // some of them written, replay starts after the last of them, so it never replays old
            // entries.
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
