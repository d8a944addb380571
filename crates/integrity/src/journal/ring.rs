use std::{ops::Range, sync::Arc};

use crate::{Error, geometry::Geometry, mac::Mac, storage::Storage, superblock::Salt};

use super::{SectionFormat, Sequence};

/// How much of the journal is written at once, in bytes.
const WRITE_SIZE: usize = 1 << 20;

/// The journal's sections, as they lie on the metadata device.
#[derive(Clone)]
pub(crate) struct Ring {
    storage: Arc<Storage>,
    format: SectionFormat,
    offset: u64,
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
            format: SectionFormat::new(*geometry.journal(), mac, salt),
            offset: geometry.journal_offset(),
        }
    }

    /// Writes sections that are adjacent, the first being `section`.
    pub(crate) fn write(&self, section: u32, bytes: &[u8]) -> Result<(), Error> {
        self.storage
            .write_metadata(bytes, self.section_offset(section))
    }

    /// Writes sections without entries.
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

    fn section_offset(&self, section: u32) -> u64 {
        self.offset + u64::from(section) * self.format.layout.section_len() as u64
    }
}
