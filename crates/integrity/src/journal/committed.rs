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
    pub(super) free: usize,
    /// The sections that may not be overwritten, oldest first.
    sections: VecDeque<Section>,
    /// Some sections have not been flushed.
    is_unflushed: bool,
    /// The journal on the device has entries.
    has_entries: bool,
}

/// A section that was written to the journal.
enum Section {
    /// Its blocks are read from memory.
    Held(Vec<Entry>),
    /// The blocks at these sectors have been written in place; some tags may still be only in the
    /// cache.
    InPlace(Vec<u64>),
}

impl Section {
    /// The entries that are still in memory.
    fn held(&self) -> &[Entry] {
        match self {
            Self::Held(entries) => entries,
            Self::InPlace(_) => &[],
        }
    }

    fn has_dirty_tag(&self, blocks: &Blocks) -> bool {
        match self {
            Self::Held(entries) => entries
                .iter()
                .any(|entry| blocks.has_dirty_tag(entry.sector)),
            Self::InPlace(sectors) => sectors.iter().any(|&sector| blocks.has_dirty_tag(sector)),
        }
    }
}

impl Committed {
    /// A fully replayed journal.
    pub(super) fn new(ring: Ring, replayed: Replayed) -> Self {
        Self {
            position: replayed.position,
            free: ring.sections as usize,
            ring,
            sections: VecDeque::new(),
            is_unflushed: false,
            has_entries: replayed.has_entries,
        }
    }

    /// The number of sections whose blocks are held in memory.
    pub(super) fn held(&self) -> usize {
        let is_held = |section: &&Section| matches!(section, Section::Held(_));
        self.sections.iter().rev().take_while(is_held).count()
    }

    /// Writes blocks to as many sections as they need. Enough sections must be free.
    pub(super) fn write(&mut self, entries: Vec<Entry>) -> Result<(), Error> {
        self.is_unflushed = true;
        self.has_entries = true;
        let format = &self.ring.format;
        debug_assert!(
            entries.len() <= self.free * format.layout.entries,
            "only free sections are overwritten"
        );
        let len = format.layout.section_len();
        let mut entries = entries.into_iter();
        while entries.len() > 0 {
            // Only adjacent sections in one write: the ring wraps at its end.
            let first = self.position;
            let sections = entries
                .len()
                .div_ceil(format.layout.entries)
                .min((WRITE_SIZE / len).max(1))
                .min((self.ring.sections - first.section) as usize);
            let mut bytes = vec![0; sections * len];
            let mut position = first;
            let mut written = Vec::with_capacity(sections);
            for bytes in bytes.chunks_exact_mut(len) {
                let own: Vec<Entry> = entries.by_ref().take(format.layout.entries).collect();
                format.clear(bytes);
                for (number, entry) in own.iter().enumerate() {
                    format.put(bytes, number, entry.sector, entry.data(), entry.tag());
                }
                format.seal(bytes, position.section, position.sequence);
                position = position.next(self.ring.sections);
                written.push(Section::Held(own));
            }
            self.ring.write(first.section, &bytes)?;
            self.position = position;
            self.free -= sections;
            self.sections.extend(written);
            self.check();
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
            .flat_map(Section::held)
            .map(|entry| (entry.sector, entry))
            .collect();
        let entries: Vec<&Entry> = newest.into_values().collect();
        let block_size = blocks.geometry.shape.block_size.bytes();
        let block_sectors = (block_size / SECTOR) as u64;
        for run in entries.chunk_by(|one, other| one.sector + block_sectors == other.sector) {
            for run in run.chunks(WRITE_SIZE / block_size) {
                let data: Vec<&[u8]> = run.iter().map(|entry| entry.data()).collect();
                let tags: Vec<&[u8]> = run.iter().map(|entry| entry.tag()).collect();
                blocks.write(run[0].sector, &data.concat(), &tags.concat())?;
            }
        }
        for section in &mut self.sections {
            if let Section::Held(entries) = section {
                pending.settle(entries.iter());
                let sectors = entries.iter().map(|entry| entry.sector).collect();
                *section = Section::InPlace(sectors);
            }
        }
        self.check();
        Ok(())
    }

    /// Frees the oldest sections whose tags are all written back. If fewer than `least` sections
    /// would be free, writes back the remaining tags and frees all sections. All blocks must be in
    /// place.
    pub(super) fn settle(&mut self, blocks: &Blocks, least: usize) -> Result<(), Error> {
        let settled = self
            .sections
            .iter()
            .take_while(|section| !section.has_dirty_tag(blocks))
            .count();
        if self.free + settled < least {
            return self.settle_all(blocks);
        }
        blocks.storage.flush()?;
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
        debug_assert!(
            self.sections.is_empty(),
            "blocks that are needed are cleared"
        );
        if self.has_entries {
            // Equivalent to committing empty sections once around the ring. If a crash leaves only
            // some of them written, replay starts after the last of them, so it never replays old
            // entries.
            let Position { section, sequence } = self.position;
            self.ring
                .write_empty(section..self.ring.sections, sequence)?;
            self.ring.write_empty(0..section, sequence.next())?;
            self.ring.flush()?;
            self.position.sequence = sequence.next();
            self.has_entries = false;
        }
        Ok(())
    }

    fn drop_oldest(&mut self, sections: usize) {
        debug_assert!(
            self.sections
                .range(..sections)
                .all(|section| section.held().is_empty()),
            "a section is freed before its blocks are in place"
        );
        self.sections.drain(..sections);
        self.free += sections;
        self.check();
    }

    fn check(&self) {
        let is_held = |section: &Section| matches!(section, Section::Held(_));
        let room = 1..=self.ring.format.layout.entries;
        debug_assert_eq!(self.free + self.sections.len(), self.ring.sections as usize);
        debug_assert!(self.position.section < self.ring.sections);
        debug_assert!(self.has_entries || self.sections.is_empty());
        debug_assert!(
            self.sections.iter().is_sorted_by_key(is_held),
            "a section is in place before an older one"
        );
        debug_assert!(
            self.sections
                .iter()
                .all(|section| !is_held(section) || room.contains(&section.held().len()))
        );
    }
}
