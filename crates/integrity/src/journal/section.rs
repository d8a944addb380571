//! One section of the journal, in memory.

use std::ops::Range;

use crate::{
    mac::{Mac, SECTION_MAC},
    raw::{JOURNAL_CONTENTS, JOURNAL_MAC_PART, SECTOR},
    superblock::Salt,
};

use super::{JournalLayout, Sequence, layout::METADATA_SECTORS};

/// The sector field of an entry that is not used.
const UNUSED: u64 = 0xffff_ffff_0000_0000;

/// Sections and their entries: what is the same for all of a journal.
#[derive(Clone)]
pub(crate) struct SectionFormat {
    pub(crate) layout: JournalLayout,
    mac: Option<Mac>,
    salt: Option<Salt>,
}

impl SectionFormat {
    pub(crate) fn new(layout: JournalLayout, mac: Option<Mac>, salt: Option<Salt>) -> Self {
        Self { layout, mac, salt }
    }

    /// Makes `bytes`, which has a section's length, a section without entries that still lacks its
    /// commit ids.
    pub(crate) fn clear(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        for entry in 0..self.layout.entries() {
            bytes[self.layout.entry_sector(entry)].copy_from_slice(&UNUSED.to_le_bytes());
        }
    }

    /// Writes the section's MAC, and the commit ids of `sequence`.
    pub(crate) fn seal(&self, bytes: &mut [u8], section: u32, sequence: Sequence) {
        if let Some(mac) = self.mac(bytes, section) {
            for (sector, part) in mac.chunks_exact(JOURNAL_MAC_PART).enumerate() {
                bytes[mac_part(sector)].copy_from_slice(part);
            }
        }
        for (number, sector) in (0..).zip(bytes.chunks_exact_mut(SECTOR)) {
            let commit_id = sequence.commit_id(section, number);
            sector[JOURNAL_CONTENTS..].copy_from_slice(&commit_id.to_le_bytes());
        }
    }

    fn mac(&self, bytes: &[u8], section: u32) -> Option<[u8; SECTION_MAC]> {
        let mac = self.mac.as_ref()?;
        let mut sectors = Vec::with_capacity(self.layout.entries() * size_of::<u64>());
        for entry in 0..self.layout.entries() {
            sectors.extend_from_slice(&bytes[self.layout.entry_sector(entry)]);
        }
        Some(mac.of_section(self.salt.as_ref(), section, &sectors))
    }
}

/// Where a metadata sector holds its part of the section's MAC.
fn mac_part(sector: usize) -> Range<usize> {
    debug_assert!(sector < METADATA_SECTORS);
    let end = sector * SECTOR + JOURNAL_CONTENTS;
    end - JOURNAL_MAC_PART..end
}
