//! Scanning the journal when a volume is opened, and replaying it.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use crate::{Corruption, Error, Unsupported, blocks::Blocks};

use super::{Pending, Position, Ring, SectionFormat, Sequence};

/// The number of bytes of adjacent blocks to gather before writing them.
const WRITE_SIZE: usize = 1 << 20;

/// The most bytes of blocks that are held in memory instead of being written: four times what a journal of the
/// usual size can hold. The superblock can ask for a journal of any size.
const MAX_HELD: usize = 256 << 20;

/// The result of scanning a journal's commit ids and entries.
pub(crate) struct Scan {
    /// For each section, the sequence number of its sectors, if they all have the same.
    laps: Vec<Option<Sequence>>,
    /// For each sequence number, the last section with a sector of it.
    last_sections: [Option<u32>; Sequence::COUNT],
    /// No section has an entry.
    pub(crate) is_empty: bool,
}

/// A journal whose blocks are all durable in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replayed {
    /// The position of the next section to write.
    pub(crate) position: Position,
    /// The journal still has entries, which would be replayed again.
    pub(crate) has_entries: bool,
}

impl Replayed {
    /// A new journal of empty sections.
    pub(crate) const FRESH: Self = Self {
        position: Position {
            section: 0,
            sequence: Sequence::SECOND,
        },
        has_entries: false,
    };
}

/// Replays the scanned journal: writes its blocks in place, makes them durable, and returns the
/// position from which the journal may be overwritten.
///
/// The journal is not changed before all its blocks are durable in place, so a crash at any point
/// only means another replay. `goes_on`: the volume will be used in journal mode, and the journal
/// need not be cleared if it is complete.
pub(crate) fn replay(
    scan: &Scan,
    ring: &Ring,
    blocks: &Blocks,
    goes_on: bool,
) -> Result<Replayed, Error> {
    let oldest = scan.oldest(ring.sections)?;
    let (matching, end) = scan.matching(oldest, ring.sections);
    let is_empty = scan.has_nothing()?;
    if !is_empty {
        scan.for_each_block(ring, blocks, &mut |sector, data, tags| {
            blocks.write(sector, data, tags)
        })?;
        blocks.flush()?;
    }
    if matching == ring.sections && (goes_on || is_empty) {
        Ok(Replayed {
            position: end,
            has_entries: !scan.is_empty,
        })
    } else {
        Ok(Replayed {
            position: clear(ring, oldest.section, scan.last()?.previous().previous())?,
            has_entries: false,
        })
    }
}

/// Reads what the journal holds, as `scan` describes it, into memory, and changes nothing.
pub(crate) fn hold(scan: &Scan, ring: &Ring, blocks: &Blocks) -> Result<Pending, Error> {
    let held = Pending::new(&blocks.geometry.shape);
    let mut len = 0_usize;
    if !scan.has_nothing()? {
        scan.for_each_block(ring, blocks, &mut |sector, data, tags| {
            len = len.saturating_add(data.len());
            if len > MAX_HELD {
                return Err(Unsupported::JournalContents(MAX_HELD).into());
            }
            held.add(sector, data, tags);
            Ok(())
        })?;
    }
    Ok(held)
}

/// Takes blocks from a sector on, and their tags.
type Take<'a> = dyn FnMut(u64, &[u8], &[u8]) -> Result<(), Error> + 'a;

impl Scan {
    /// Whether nothing has to be brought to its place.
    fn has_nothing(&self) -> Result<bool, Error> {
        Ok(self.is_empty || self.was_being_cleared()?)
    }

    /// Gives the blocks of all sections that count to `take`, those written last coming last.
    fn for_each_block(
        &self,
        ring: &Ring,
        blocks: &Blocks,
        take: &mut Take<'_>,
    ) -> Result<(), Error> {
        let mut position = self.oldest(ring.sections)?;
        let (matching, _) = self.matching(position, ring.sections);
        for _ in 0..matching {
            replay_section(ring, blocks, position.section, take)?;
            position = position.next(ring.sections);
        }
        Ok(())
    }

    /// Reads and scans a journal.
    pub(crate) fn new(ring: &Ring) -> Result<Self, Error> {
        let mut scan = Self {
            laps: Vec::new(),
            last_sections: [None; Sequence::COUNT],
            is_empty: true,
        };
        let format = &ring.format;
        let mut bytes = vec![0; format.layout.section_len()];
        for section in 0..ring.sections {
            ring.read(section, &mut bytes)?;
            let lap = scan.note_sectors(section, &bytes)?;
            scan.laps.push(lap);
            let mut entries = 0..format.layout.entries;
            scan.is_empty &= entries.all(|entry| format.sector(&bytes, entry).is_none());
        }
        debug_assert_eq!(u32::try_from(scan.laps.len()), Ok(ring.sections));
        Ok(scan)
    }

    fn note_sectors(&mut self, section: u32, bytes: &[u8]) -> Result<Option<Sequence>, Error> {
        let mut first = None;
        let mut is_uniform = true;
        for (sector, sequence) in SectionFormat::sequences(bytes, section) {
            let sequence = sequence.ok_or(Corruption::CommitId { section, sector })?;
            is_uniform &= *first.get_or_insert(sequence) == sequence;
            if let Some(last) = self.last_sections.get_mut(sequence.index()) {
                *last = Some(section);
            }
        }
        Ok(first.filter(|_| is_uniform))
    }

    fn last_section(&self, sequence: Sequence) -> Option<u32> {
        self.last_sections.get(sequence.index()).copied().flatten()
    }

    fn is_used(&self, sequence: Sequence) -> bool {
        self.last_section(sequence).is_some()
    }

    /// The newest sequence number in use. Sequence numbers wrap, so it is the one before the first
    /// unused number.
    fn last(&self) -> Result<Sequence, Error> {
        let highest = Sequence::all()
            .rev()
            .find(|&sequence| self.is_used(sequence));
        let wraps = self.is_used(Sequence::LAST);
        let first_unused = Sequence::all().find(|&sequence| !self.is_used(sequence));
        match (wraps, first_unused, highest) {
            (true, Some(unused), _) => Ok(unused.previous()),
            (false, _, Some(highest)) => Ok(highest),
            _ => Err(Corruption::CommitSequence.into()),
        }
    }

    /// An interrupted clear leaves the sequence number before the newest unused, and the one before
    /// that in use.
    fn was_being_cleared(&self) -> Result<bool, Error> {
        let before = self.last()?.previous();
        Ok(!self.is_used(before) && self.is_used(before.previous()))
    }

    /// The oldest section, with its sequence number: the one after the last section with the newest
    /// sequence number.
    fn oldest(&self, sections: u32) -> Result<Position, Error> {
        let last = self.last()?;
        let newest = Position {
            section: self.last_section(last).unwrap_or(0),
            sequence: last.previous(),
        };
        Ok(newest.next(sections))
    }

    /// How many sections from `oldest` on are complete and have the expected sequence numbers, and
    /// the position after them.
    fn matching(&self, oldest: Position, sections: u32) -> (u32, Position) {
        let mut position = oldest;
        for count in 0..sections {
            let index = usize::try_from(position.section).unwrap_or(usize::MAX);
            if self.laps.get(index) != Some(&Some(position.sequence)) {
                return (count, position);
            }
            position = position.next(sections);
        }
        (sections, position)
    }
}

/// Gives the blocks of a section, which are compared with their tags, to `take`.
fn replay_section(
    ring: &Ring,
    blocks: &Blocks,
    section: u32,
    take: &mut Take<'_>,
) -> Result<(), Error> {
    let format = &ring.format;
    let mut bytes = vec![0; format.layout.section_len()];
    ring.read(section, &mut bytes)?;
    if !format.is_authentic(&bytes, section) {
        return Err(Corruption::JournalMac(section).into());
    }
    let mut run = Run::default();
    for entry in 0..format.layout.entries {
        let Some(sector) = format.sector(&bytes, entry) else {
            continue;
        };
        let block_sectors = blocks.geometry.shape.block_size.sectors();
        if !sector.is_multiple_of(block_sectors) {
            return Err(Corruption::JournalSector { section, sector }.into());
        }
        // Skip entries beyond the end of the volume: it may have shrunk, or never had the sector.
        if sector >= blocks.geometry.provided_data_sectors {
            continue;
        }
        if run.end != Some(sector) || run.data.len() >= WRITE_SIZE {
            run.give(take)?;
            run.start = sector;
        }
        let tag = format.tag(&bytes, entry);
        let before = run.data.len();
        format.append_block(&bytes, entry, &mut run.data);
        let block = run.data.get(before..).unwrap_or_default();
        if !blocks.tagger.mismatches(sector, block, tag).is_empty() {
            return Err(Corruption::JournalTag { sector }.into());
        }
        run.tags.extend_from_slice(tag);
        run.end = sector.checked_add(block_sectors);
    }
    run.give(take)
}

/// Adjacent blocks that are given together.
#[derive(Default)]
struct Run {
    start: u64,
    /// The first sector after them; `None` if there are no blocks.
    end: Option<u64>,
    data: Vec<u8>,
    tags: Vec<u8>,
}

impl Run {
    fn give(&mut self, take: &mut Take<'_>) -> Result<(), Error> {
        debug_assert_eq!(
            self.end.is_none(),
            self.data.is_empty(),
            "a block is left out"
        );
        if self.end.take().is_some() {
            take(self.start, &self.data, &self.tags)?;
            self.data.clear();
            self.tags.clear();
        }
        Ok(())
    }
}

/// Clears the journal in an order that never looks like valid contents: once the oldest section is
/// cleared, no other section matches.
fn clear(ring: &Ring, oldest: u32, sequence: Sequence) -> Result<Position, Error> {
    let after = oldest.saturating_add(1);
    ring.write_empty(oldest..after, sequence)?;
    ring.flush()?;
    ring.write_empty(after..ring.sections, sequence)?;
    ring.write_empty(0..oldest, sequence)?;
    ring.flush()?;
    Ok(Position {
        section: 0,
        sequence: sequence.next(),
    })
}
