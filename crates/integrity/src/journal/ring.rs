use std::{ops::Range, sync::Arc};

use crate::{Error, geometry::Geometry, mac::Mac, storage::Storage, superblock::Salt};

use super::{Replayed, SectionFormat, Sequence};

/// The maximum size of a journal write, in bytes.
const WRITE_SIZE: usize = 1 << 20;

/// A position in the ring: a section, and the sequence number with which it is written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) section: u32,
    pub(crate) sequence: Sequence,
}

impl Position {
    /// The next position in a ring of `sections` sections.
    pub(crate) fn next(self, sections: u32) -> Self {
        debug_assert!(self.section < sections);
        match self.section.checked_add(1) {
            Some(section) if section < sections => Self { section, ..self },
            _ => Self {
                section: 0,
                sequence: self.sequence.next(),
            },
        }
    }
}

/// The journal's sections on the metadata device.
#[derive(Clone)]
pub(crate) struct Ring {
    storage: Arc<Storage>,
    pub(crate) format: SectionFormat,
    offset: u64,
    /// The number of sections.
    pub(crate) sections: u32,
}

impl Ring {
    /// The journal of the volume with this geometry.
    pub(crate) fn new(
        storage: Arc<Storage>,
        geometry: &Geometry,
        mac: Option<Mac>,
        salt: Option<Salt>,
    ) -> Self {
        Self {
            storage,
            format: SectionFormat {
                layout: geometry.journal,
                mac,
                salt,
            },
            offset: geometry.journal_offset(),
            sections: geometry.shape.journal_sections.get(),
        }
    }

    /// Writes an empty journal, durably.
    pub(crate) fn initialise(&self) -> Result<Replayed, Error> {
        self.write_empty(0..self.sections, Sequence::FIRST)?;
        self.flush()?;
        Ok(Replayed::FRESH)
    }

    /// Reads a section.
    pub(crate) fn read(&self, section: u32, bytes: &mut [u8]) -> Result<(), Error> {
        let offset = self.offset_of(section, bytes.len());
        self.storage.read_metadata(bytes, offset)
    }

    /// Writes adjacent sections, starting with `section`.
    pub(crate) fn write(&self, section: u32, bytes: &[u8]) -> Result<(), Error> {
        let offset = self.offset_of(section, bytes.len());
        self.storage.write_metadata(bytes, offset)
    }

    /// Writes empty sections.
    pub(crate) fn write_empty(
        &self,
        sections: Range<u32>,
        sequence: Sequence,
    ) -> Result<(), Error> {
        let len = self.format.layout.section_len();
        let at_once = (WRITE_SIZE / len).max(1).min(sections.len());
        let mut bytes = vec![0; at_once * len];
        for section in bytes.chunks_exact_mut(len) {
            self.format.clear(section);
        }
        for first in sections.clone().step_by(at_once.max(1)) {
            let count = (sections.end - first).min(at_once as u32);
            let bytes = &mut bytes[..count as usize * len];
            for (section, bytes) in (first..).zip(bytes.chunks_exact_mut(len)) {
                self.format.seal(bytes, section, sequence);
            }
            self.write(first, bytes)?;
        }
        Ok(())
    }

    /// Makes all written sections durable.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        self.storage.flush_metadata()
    }

    /// Starts writing out the sections ahead of the next flush.
    pub(crate) fn begin_flush(&self) -> Result<(), Error> {
        self.storage.begin_metadata_flush()
    }

    /// The offset of `len` bytes of sections, starting with `section`.
    fn offset_of(&self, section: u32, len: usize) -> u64 {
        let section_len = self.format.layout.section_len();
        debug_assert!(len.is_multiple_of(section_len));
        debug_assert!(
            section as usize + len / section_len <= self.sections as usize,
            "the ring ends before"
        );
        self.offset + u64::from(section) * section_len as u64
    }
}
