use std::{iter, mem, ops::Range};

use crate::{
    bits::{Bits, runs},
    raw::SECTOR,
};

/// A contiguous run of tags, some of which are cached.
///
/// Two sets record what is cached: the tags that were set, and the sectors whose bytes are all
/// known. Both are needed, as a tag may span two sectors, and a sector holds parts of many tags.
#[derive(Debug)]
pub(super) struct Chunk {
    bytes: Box<[u8]>,
    tag_size: usize,
    tags: usize,
    /// Tags that were set since the chunk was created.
    set: Bits,
    /// Sectors whose bytes are all known: as stored, or newer.
    known: Bits,
    /// Sectors that are newer than their stored copy.
    dirty: Bits,
    /// Sectors that are being written back. They count as dirty until they are stored.
    writing: Vec<Range<usize>>,
    /// A thread is reading the chunk from the storage.
    pub(super) is_loading: bool,
    /// When the chunk was last used, for eviction.
    pub(super) last_used: u64,
}

impl Chunk {
    pub(super) fn new(tags: usize, tag_size: usize) -> Self {
        let sectors = (tags * tag_size).div_ceil(SECTOR);
        Self {
            bytes: vec![0; sectors * SECTOR].into(),
            tag_size,
            tags,
            set: Bits::new(tags),
            known: Bits::new(sectors),
            dirty: Bits::new(sectors),
            writing: Vec::new(),
            is_loading: false,
            last_used: 0,
        }
    }

    pub(super) fn sectors(&self) -> usize {
        self.bytes.len() / SECTOR
    }

    pub(super) fn is_dirty(&self) -> bool {
        !(self.dirty.is_empty() && self.writing.is_empty())
    }

    /// Whether a sector with a part of these tags is newer than its stored copy.
    pub(super) fn has_dirty(&self, tags: Range<usize>) -> bool {
        let is_writing = |sector| self.writing.iter().any(|run| run.contains(&sector));
        self.sectors_of(tags)
            .any(|sector| self.dirty.contains(sector) || is_writing(sector))
    }

    /// Whether all of these tags are cached.
    pub(super) fn holds(&self, tags: Range<usize>) -> bool {
        self.set.contains_all(tags.clone())
            || self.known.contains_all(self.sectors_of(tags.clone()))
            || tags.into_iter().all(|tag| {
                self.set.contains(tag) || self.known.contains_all(self.sectors_of(tag..tag + 1))
            })
    }

    /// The bytes of tags that are cached.
    pub(super) fn tags(&self, tags: Range<usize>) -> &[u8] {
        debug_assert!(self.holds(tags.clone()));
        &self.bytes[tags.start * self.tag_size..tags.end * self.tag_size]
    }

    /// Sets tags, starting with the tag `first`.
    pub(super) fn set(&mut self, first: usize, bytes: &[u8]) {
        let tags = first..first + bytes.len() / self.tag_size;
        debug_assert!(tags.end <= self.tags, "the chunk has fewer tags");
        let start = first * self.tag_size;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.set.insert(tags.clone());
        let sectors = self.sectors_of(tags);
        for sector in sectors.clone() {
            if !self.known.contains(sector) && self.set.contains_all(self.tags_of(sector)) {
                self.known.insert(sector..sector + 1);
            }
        }
        self.dirty.insert(sectors.clone());
        self.check(sectors);
    }

    /// The contiguous range of sectors to read so that these tags are cached, widened to multiples
    /// of `granule` sectors.
    pub(super) fn missing(&self, tags: Range<usize>, granule: usize) -> Range<usize> {
        let sectors = self.sectors_of(tags);
        let is_missing = |&sector: &usize| !self.known.contains(sector);
        let first = sectors.clone().find(is_missing);
        let last = sectors.rev().find(is_missing);
        match (first, last) {
            (Some(first), Some(last)) => {
                let start = first / granule * granule;
                start..(last + 1).next_multiple_of(granule).min(self.sectors())
            }
            _ => 0..0,
        }
    }

    /// Fills the sectors from `first` on with their stored bytes, except where newer bytes are
    /// cached.
    pub(super) fn fill(&mut self, first: usize, stored: &[u8]) {
        for (sector, stored) in (first..).zip(stored.chunks_exact(SECTOR)) {
            if !self.known.contains(sector) {
                self.fill_sector(sector, stored);
                self.known.insert(sector..sector + 1);
            }
        }
        self.check(first..first + stored.len() / SECTOR);
    }

    fn fill_sector(&mut self, sector: usize, stored: &[u8]) {
        let place = sector * SECTOR..(sector + 1) * SECTOR;
        let held: Vec<Range<usize>> = runs(self.tags_of(sector), |tag| self.set.contains(tag))
            .map(|tags| tags.start * self.tag_size..tags.end * self.tag_size)
            .map(|bytes| bytes.start.max(place.start)..bytes.end.min(place.end))
            .collect();
        let mut next = place.start;
        for kept in held.into_iter().chain(iter::once(place.end..place.end)) {
            let from = next - place.start..kept.start - place.start;
            self.bytes[next..kept.start].copy_from_slice(&stored[from]);
            next = kept.end;
        }
    }

    /// Runs of dirty sectors that must be read before they can be written back.
    pub(super) fn edges(&self) -> Vec<Range<usize>> {
        runs(0..self.sectors(), |sector| {
            self.dirty.contains(sector) && !self.known.contains(sector)
        })
        .collect()
    }

    /// Begins to write back: all runs of dirty sectors whose bytes are known, as the first sector
    /// and a copy of the bytes. Tags set from here on are written back the next time.
    pub(super) fn begin_write(&mut self) -> Vec<(usize, Vec<u8>)> {
        debug_assert!(self.writing.is_empty(), "two threads write a chunk back");
        self.writing = runs(0..self.sectors(), |sector| {
            self.dirty.contains(sector) && self.known.contains(sector)
        })
        .collect();
        for sectors in &self.writing {
            self.dirty.remove(sectors.clone());
        }
        let bytes =
            |sectors: &Range<usize>| &self.bytes[sectors.start * SECTOR..sectors.end * SECTOR];
        self.writing
            .iter()
            .map(|sectors| (sectors.start, bytes(sectors).to_vec()))
            .collect()
    }

    /// Ends the write-back that [`Self::begin_write`] began. If it failed, its sectors are dirty
    /// again.
    pub(super) fn end_write(&mut self, is_stored: bool) {
        for sectors in mem::take(&mut self.writing) {
            if !is_stored {
                self.dirty.insert(sectors);
            }
        }
    }

    fn check(&self, mut sectors: Range<usize>) {
        debug_assert!(sectors.end <= self.sectors());
        debug_assert!(
            sectors.all(|sector| {
                let mut tags = self.tags_of(sector);
                let all_are_set = self.set.contains_all(tags.clone());
                let is_any_set = tags.any(|tag| self.set.contains(tag));
                (self.known.contains(sector) || !all_are_set)
                    && (is_any_set || !self.dirty.contains(sector))
            }),
            "a sector is known if all its tags are set, and dirty only if any is"
        );
    }

    fn sectors_of(&self, tags: Range<usize>) -> Range<usize> {
        tags.start * self.tag_size / SECTOR..(tags.end * self.tag_size).div_ceil(SECTOR)
    }

    fn tags_of(&self, sector: usize) -> Range<usize> {
        let end = ((sector + 1) * SECTOR).div_ceil(self.tag_size);
        sector * SECTOR / self.tag_size..end.min(self.tags)
    }
}
