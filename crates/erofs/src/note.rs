//! What the writer tells of a whole image, which the format has no place for: in the bytes in front of the superblock, which
//! the format leaves free. Other readers ignore it, and other writers leave zeros there.

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, little_endian::U64};

use crate::{numbers::to_usize, raw::SUPERBLOCK};

/// The first bytes of a note.
const MAGIC: [u8; 8] = *b"verimnt1";

bitflags! {
    /// What a note says.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Note: u64 {
        /// No file has an access control list.
        const NO_ACCESS_LISTS = 1 << 0;
    }
}

/// A note in an image: right in front of the superblock.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    facts: U64,
}

impl Note {
    /// The note in the beginning of an image. It says nothing if there is none.
    pub(crate) fn read(beginning: &[u8]) -> Self {
        let before = beginning.get(..to_usize(SUPERBLOCK)).unwrap_or_default();
        match Raw::read_from_suffix(before) {
            Ok((_, raw)) if raw.magic == MAGIC => Self::from_bits_truncate(raw.facts.get()),
            _ => Self::empty(),
        }
    }

    /// Writes the note to the bytes in front of the superblock.
    #[cfg(feature = "write")]
    pub(crate) fn write_to(self, before: &mut [u8]) {
        let raw = Raw {
            magic: MAGIC,
            facts: self.bits().into(),
        };
        // There is room for it.
        let _ = raw.write_to_suffix(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_found_where_it_was_written() {
        let mut image = vec![0; 4096];
        assert_eq!(Note::read(&image), Note::empty());
        Note::NO_ACCESS_LISTS.write_to(&mut image[..1024]);
        assert_eq!(&image[1008..1024], b"verimnt1\x01\0\0\0\0\0\0\0");
        assert_eq!(Note::read(&image), Note::NO_ACCESS_LISTS);
        // What later writers may say.
        image[1017] = 0xff;
        assert_eq!(Note::read(&image), Note::NO_ACCESS_LISTS);
        image[1008] = b'V';
        assert_eq!(Note::read(&image), Note::empty());
        assert_eq!(Note::read(&image[..1000]), Note::empty());
    }
}
