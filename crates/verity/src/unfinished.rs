#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::as_conversions
)]

use std::io;

use sha2::{Digest as _, Sha256};
use verimount_source::{GrowingFile, ReadAt};
use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

use crate::{Corruption, DESCRIPTOR_SIZE, Error, MAX_SIGNATURE_SIZE, SEAL_BLOCK};

/// The unit that storage writes atomically, in bytes. Writing one begins and completes a change.
pub(crate) const SECTOR: usize = 512;
pub(crate) const SECTOR_SIZE: u64 = 512;

const _: () = assert!(size_of::<RawMark>() == SECTOR && SECTOR == 512 && SECTOR_SIZE == 512);

const MAGIC: [u8; 16] = *b"verimount begun\0";

/// Maximum size of the end of a seal, from the descriptor on, in bytes.
const MAX_END: u64 = 16384 + SEAL_BLOCK;

const _: () = assert!(DESCRIPTOR_SIZE + MAX_SIGNATURE_SIZE == 16384);

/// The mark: a file's last sector while its end is being changed.
#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMark {
    magic: [u8; 16],
    kind: U32,
    reserved: [u8; 4],
    /// The file's length, including this sector.
    file_size: U64,
    /// Number of unchanged bytes at the start of the file.
    kept: U64,
    /// From here to the checksum zero, if a seal is being appended.
    end_at: U64,
    end_size: U64,
    end_hash: [u8; 32],
    checksum: [u8; 32],
    /// Covers the place of a seal's trailer, too.
    zeros: [u8; 392],
}

const SEALING: u32 = 1;
const SIGNING: u32 = 2;

/// An unfinished change of a file's end.
///
/// Its mark is the file's last sector. It is written first, and extends the file to the necessary
/// length. So the mark is either there, or the file is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// A seal is being appended.
    Sealing(Sealing),
    /// The signature of an appended seal is being replaced.
    Signing(Signing),
}

/// A seal that is being appended, whose last sector is not there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sealing {
    /// Size of the data in bytes.
    pub(crate) data_size: u64,
    /// The file's length with the complete seal.
    pub(crate) file_size: u64,
}

/// A signature that is being replaced. The new end of the seal is first written behind the old one.
/// Until it is complete there, the old seal is valid, and from then on the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signing {
    /// The length of the file before.
    pub(crate) old_size: u64,
    /// Destination of the new end.
    end_at: u64,
    end_size: u64,
    end_hash: [u8; 32],
}

impl Unfinished {
    /// The unfinished change of `file`, if there is one.
    ///
    /// # Errors
    /// [`Error::Source`]; [`Error::Corrupt`] for an inconsistent mark.
    pub(crate) fn read(file: &dyn ReadAt) -> Result<Option<Self>, Error> {
        let mut bytes = [0; SECTOR];
        let Some(at) = file.size().checked_sub(SECTOR_SIZE) else {
            return Ok(None);
        };
        file.read_exact_at(&mut bytes, at)?;
        let raw: RawMark = zerocopy::transmute!(bytes);
        if raw.magic != MAGIC {
            return Ok(None);
        }
        // A mark in data copied from another file does not count: its length differs.
        if raw.checksum != raw.expected_checksum() || raw.file_size.get() != file.size() {
            return Ok(None);
        }
        let found = match raw.kind.get() {
            SEALING => Sealing::from_raw(&raw).map(Self::Sealing),
            SIGNING => Signing::from_raw(&raw).map(Self::Signing),
            _ => {
                return Err(Error::Unsupported(
                    "another kind of unfinished change".into(),
                ));
            }
        };
        Ok(Some(found.ok_or(Corruption::Mark)?))
    }
}

impl Sealing {
    /// The file's last sector.
    pub(crate) fn mark(&self) -> [u8; SECTOR] {
        RawMark::new(SEALING, self.file_size, self.data_size).into_bytes()
    }

    fn from_raw(raw: &RawMark) -> Option<Self> {
        let found = Self {
            data_size: raw.kept.get(),
            file_size: raw.file_size.get(),
        };
        let before_mark = found.file_size.checked_sub(SECTOR_SIZE)?;
        (found.data_size <= before_mark).then_some(found)
    }
}

impl Signing {
    /// A replacement of the end of a file of `old_size` bytes, from `end_at` on, by `end`.
    pub(crate) fn new(old_size: u64, end_at: u64, end: &[u8]) -> Option<Self> {
        Some(Self {
            old_size,
            end_at,
            end_size: u64::try_from(end.len()).ok()?,
            end_hash: Sha256::digest(end).into(),
        })
        .filter(Self::is_possible)
    }

    fn from_raw(raw: &RawMark) -> Option<Self> {
        let found = Self {
            old_size: raw.kept.get(),
            end_at: raw.end_at.get(),
            end_size: raw.end_size.get(),
            end_hash: raw.end_hash,
        };
        let is_whole = found.marked_size() == Some(raw.file_size.get());
        (is_whole && found.is_possible()).then_some(found)
    }

    /// Whether sizes and offsets are whole blocks, and the new end replaces the old one.
    fn is_possible(&self) -> bool {
        let is_whole = |size: u64| size.is_multiple_of(SEAL_BLOCK);
        is_whole(self.old_size)
            && is_whole(self.end_at)
            && is_whole(self.end_size)
            && self.end_at < self.old_size
            && (1..=MAX_END).contains(&self.end_size)
            && self.marked_size().is_some()
    }

    /// Temporary offset of the new end: behind both the old file and the new one.
    fn waiting_at(&self) -> Option<u64> {
        Some(self.old_size.max(self.new_size()?))
    }

    /// The file's length while the change is under way.
    fn marked_size(&self) -> Option<u64> {
        self.waiting_at()?
            .checked_add(self.end_size)?
            .checked_add(SECTOR_SIZE)
    }

    /// The file's length with the new end.
    pub(crate) fn new_size(&self) -> Option<u64> {
        self.end_at.checked_add(self.end_size)
    }

    /// Replaces the end by `end`. After an interruption at any point, the change that
    /// [`Unfinished::read`] finds leads to the old end or the new one.
    pub(crate) fn carry_out(&self, file: &dyn GrowingFile, end: &[u8]) -> io::Result<()> {
        let prepared = self.prepare(file, end);
        if prepared.is_err() {
            // Report the first failure, not another one of the cleanup.
            let _ = file.set_len(self.old_size);
        }
        prepared.and_then(|()| self.put_in_place(file, end))
    }

    fn prepare(&self, file: &dyn GrowingFile, end: &[u8]) -> io::Result<()> {
        let too_large = || io::Error::from(io::ErrorKind::FileTooLarge);
        let file_size = self.marked_size().ok_or_else(too_large)?;
        let mark = RawMark {
            end_at: U64::new(self.end_at),
            end_size: U64::new(self.end_size),
            end_hash: self.end_hash,
            ..RawMark::new(SIGNING, file_size, self.old_size)
        };
        let mark_at = file_size.checked_sub(SECTOR_SIZE).ok_or_else(too_large)?;
        let waiting_at = self.waiting_at().ok_or_else(too_large)?;
        file.write_all_at(&mark.into_bytes(), mark_at)?;
        file.sync_all()?;
        file.write_all_at(end, waiting_at)?;
        file.sync_all()
    }

    fn put_in_place(&self, file: &dyn GrowingFile, end: &[u8]) -> io::Result<()> {
        debug_assert_eq!(u64::try_from(end.len()), Ok(self.end_size));
        file.write_all_at(end, self.end_at)?;
        file.sync_all()?;
        file.set_len(self.new_size().ok_or(io::ErrorKind::FileTooLarge)?)?;
        file.sync_all()
    }

    /// Completes the change, or undoes it if the new end is incomplete.
    pub(crate) fn finish(&self, file: &dyn GrowingFile, content: &dyn ReadAt) -> Result<(), Error> {
        let finished = match self.new_end(content)? {
            Some(end) => self.put_in_place(file, &end),
            None => file.set_len(self.old_size).and_then(|()| file.sync_all()),
        };
        finished.map_err(Error::Write)
    }

    /// The new end, if it is complete; otherwise the old seal is valid.
    pub(crate) fn new_end(&self, content: &dyn ReadAt) -> Result<Option<Vec<u8>>, Error> {
        // Bounded by `is_possible`.
        let size = usize::try_from(self.end_size).map_err(|_| Corruption::Mark)?;
        let mut end = vec![0; size];
        let waiting_at = self.waiting_at().ok_or(Corruption::Mark)?;
        content.read_exact_at(&mut end, waiting_at)?;
        let is_there = Sha256::digest(&end).as_slice() == self.end_hash;
        Ok(is_there.then_some(end))
    }
}

impl RawMark {
    fn new(kind: u32, file_size: u64, kept: u64) -> Self {
        Self {
            magic: MAGIC,
            kind: U32::new(kind),
            file_size: U64::new(file_size),
            kept: U64::new(kept),
            ..Self::new_zeroed()
        }
    }

    fn into_bytes(mut self) -> [u8; SECTOR] {
        self.checksum = self.expected_checksum();
        zerocopy::transmute!(self)
    }

    /// The checksum of the whole mark except the checksum itself.
    fn expected_checksum(&self) -> [u8; 32] {
        let unchecked = Self {
            checksum: [0; 32],
            ..self.clone()
        };
        Sha256::digest(unchecked.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "small numbers")]

    use super::*;

    #[test]
    fn marks_that_contradict_themselves_are_refused() {
        let sealing = |data_size| Sealing::from_raw(&RawMark::new(SEALING, 8192, data_size));
        assert!(sealing(8192 - SECTOR_SIZE).is_some());
        assert!(sealing(8193 - SECTOR_SIZE).is_none());
        let signing = |end_at: u64, more: u64| {
            let waiting_at = 8192.max(end_at + 4096);
            let file_size = waiting_at + 4096 + SECTOR_SIZE + more;
            Signing::from_raw(&RawMark {
                end_at: U64::new(end_at),
                end_size: U64::new(4096),
                ..RawMark::new(SIGNING, file_size, 8192)
            })
        };
        assert!(signing(4096, 0).is_some());
        // The file has another size; the new end is not in the place of the old one, or not whole blocks.
        for (end_at, more) in [(4096, 4096), (8192, 0), (4095, 0)] {
            assert!(signing(end_at, more).is_none(), "{end_at} {more}");
        }
    }
}
