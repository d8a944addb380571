//! One section of the journal, in memory.

use std::ops::Range;

use crate::{
    mac::{Mac, SECTION_MAC},
    raw::{JOURNAL_CONTENTS, JOURNAL_MAC_PART, SECTOR},
    superblock::Salt,
};

use super::{
    JournalLayout, Sequence,
    layout::{LAST_BYTES, METADATA_SECTORS},
};

/// The sector field of an unused entry.
const UNUSED: u64 = 0xffff_ffff_0000_0000;

/// The format of a journal's sections and entries.
#[derive(Clone)]
pub(crate) struct SectionFormat {
    pub(crate) layout: JournalLayout,
    pub(super) mac: Option<Mac>,
    pub(super) salt: Option<Salt>,
}

impl SectionFormat {
    /// Makes `bytes`, of a section's length, an empty section without commit ids.
    pub(crate) fn clear(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        for entry in 0..self.layout.entries {
            bytes[self.layout.entry_sector(entry)].copy_from_slice(&UNUSED.to_le_bytes());
        }
    }

    /// Stores a block in a cleared section.
    pub(crate) fn put(
        &self,
        bytes: &mut [u8],
        entry: usize,
        sector: u64,
        block: &[u8],
        tag: &[u8],
    ) {
        debug_assert!(self.sector(bytes, entry).is_none(), "entry {entry} is used");
        bytes[self.layout.entry_sector(entry)].copy_from_slice(&sector.to_le_bytes());
        bytes[self.layout.entry_tag(entry)].copy_from_slice(tag);
        bytes[self.layout.entry_data(entry)].copy_from_slice(block);
        let last_bytes = self.layout.entry_last_bytes(entry);
        for (last, sector) in bytes[last_bytes]
            .chunks_exact_mut(LAST_BYTES)
            .zip(block.chunks_exact(SECTOR))
        {
            last.copy_from_slice(&sector[JOURNAL_CONTENTS..]);
        }
        debug_assert_eq!(self.sector(bytes, entry), Some(sector));
    }

    /// Writes the section's MAC and its commit ids with the sequence number `sequence`.
    pub(crate) fn seal(&self, bytes: &mut [u8], section: u32, sequence: Sequence) {
        debug_assert_eq!(bytes.len(), self.layout.section_len());
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

    /// Whether the section's MAC is valid, or the journal has no MAC.
    pub(crate) fn is_authentic(&self, bytes: &[u8], section: u32) -> bool {
        let mut found = [0; SECTION_MAC];
        for (sector, part) in found.chunks_exact_mut(JOURNAL_MAC_PART).enumerate() {
            part.copy_from_slice(&bytes[mac_part(sector)]);
        }
        self.mac(bytes, section)
            .is_none_or(|mac| subtle::ConstantTimeEq::ct_eq(&mac[..], &found[..]).into())
    }

    /// The number and the sequence number of each sector; `None` where the commit id is invalid.
    pub(crate) fn sequences(
        bytes: &[u8],
        section: u32,
    ) -> impl Iterator<Item = (u32, Option<Sequence>)> {
        (0..)
            .zip(bytes.chunks_exact(SECTOR))
            .map(move |(number, sector)| {
                let commit_id = sector.last_chunk().map_or(0, |id| u64::from_le_bytes(*id));
                (number, Sequence::of(commit_id, section, number))
            })
    }

    /// The target sector of an entry; `None` if the entry is unused.
    pub(crate) fn sector(&self, bytes: &[u8], entry: usize) -> Option<u64> {
        let field = &bytes[self.layout.entry_sector(entry)];
        let sector = field
            .first_chunk()
            .map_or(UNUSED, |field| u64::from_le_bytes(*field));
        (sector >> 32 != UNUSED >> 32).then_some(sector)
    }

    /// The tag of an entry.
    pub(crate) fn tag<'a>(&self, bytes: &'a [u8], entry: usize) -> &'a [u8] {
        &bytes[self.layout.entry_tag(entry)]
    }

    /// Reassembles the block of an entry and appends it to `out`.
    pub(crate) fn append_block(&self, bytes: &[u8], entry: usize, out: &mut Vec<u8>) {
        let data = &bytes[self.layout.entry_data(entry)];
        let last_bytes = &bytes[self.layout.entry_last_bytes(entry)];
        for (sector, last) in data
            .chunks_exact(SECTOR)
            .zip(last_bytes.chunks_exact(LAST_BYTES))
        {
            out.extend_from_slice(&sector[..JOURNAL_CONTENTS]);
            out.extend_from_slice(last);
        }
    }

    fn mac(&self, bytes: &[u8], section: u32) -> Option<[u8; SECTION_MAC]> {
        let mac = self.mac.as_ref()?;
        let mut sectors = Vec::with_capacity(self.layout.entries * size_of::<u64>());
        for entry in 0..self.layout.entries {
            sectors.extend_from_slice(&bytes[self.layout.entry_sector(entry)]);
        }
        Some(mac.of_section(self.salt.as_ref(), section, &sectors))
    }
}

/// The bytes of a section that hold the part of its MAC in a metadata sector.
fn mac_part(sector: usize) -> Range<usize> {
    debug_assert!(sector < METADATA_SECTORS);
    let end = sector * SECTOR + JOURNAL_CONTENTS;
    end - JOURNAL_MAC_PART..end
}
