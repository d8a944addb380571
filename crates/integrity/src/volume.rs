//! An open volume: requests for arbitrary byte ranges are ordered where they overlap, verified, and
//! counted.

mod check;
mod commit_timer;
mod consistency;
mod counters;
mod grow;
mod open;
mod prepare;
mod read;
mod recalculate;
mod request;
mod restore;
mod saved_superblock;
mod unflushed;

use std::{
    fmt,
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    BadBlock, Error, Mode, Superblock,
    blocks::Blocks,
    journal::Ring,
    range_lock::{Access, RangeLocks},
    recalculation::Recalculation,
};

pub use check::{BadRange, BadReason};
pub use commit_timer::CommitTimer;
pub use counters::VolumeStats;
pub use grow::grow;
pub use open::OpenOptions;
pub use restore::{CheckedHeader, RestoreOptions, check_header};

use consistency::Consistency;
use counters::{Counters, RecentMismatches};
use request::{Request, Split};
use saved_superblock::SavedSuperblock;
use unflushed::{Change, Unflushed};

/// A block volume that verifies every read.
///
/// Requests may begin and end at any byte; the rest of a partly touched block is read and verified
/// too. Any number of threads may use a volume at once: overlapping requests run in order of
/// arrival, others concurrently.
///
/// A write is durable once a [`Self::flush`] that began after it has returned. What a crash does to
/// earlier writes depends on the [`Mode`].
///
/// After a write or flush fails, all later ones fail with [`Error::Latched`], because the contents
/// of the storage are then unknown. Reads still work.
pub struct Volume {
    blocks: Blocks,
    consistency: Consistency,
    locks: RangeLocks,
    recalculation: Recalculation,
    superblock: SavedSuperblock,
    ring: Ring,
    allows_discards: bool,
    counters: Counters,
    recent_mismatches: RecentMismatches,
    unflushed: Arc<Unflushed>,
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("size", &self.size())
            .field("mode", &self.mode())
            .finish_non_exhaustive()
    }
}

impl Volume {
    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.blocks.geometry.size()
    }

    /// The mode that the volume was opened in.
    pub fn mode(&self) -> Mode {
        self.consistency.mode()
    }

    /// The current superblock.
    pub fn superblock(&self) -> Superblock {
        self.superblock.get()
    }

    /// The statistics since the volume was opened.
    pub fn stats(&self) -> VolumeStats {
        self.counters.stats()
    }

    /// The last blocks that were read and did not match their tags, 16 at most, each once, the latest last.
    pub fn recent_mismatches(&self) -> Vec<BadBlock> {
        self.recent_mismatches.get()
    }

    /// The failure that made the volume read-only, if a write or flush has failed.
    pub fn failure(&self) -> Option<String> {
        self.blocks.storage.failure().map(ToString::to_string)
    }

    /// Fills `buf` with verified bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if a block that the range touches does not match its tag,
    /// [`Error::PastEnd`], [`Error::Source`]. After an error, the contents of `buf` must not be
    /// used.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        let Some(request) = self.request(offset, buf.len() as u64)? else {
            return Ok(());
        };
        let _guard = self.locks.lock(request.sectors(), Access::Shared);
        if request.is_aligned() {
            self.read_blocks(request.sectors().start, buf)?;
        } else {
            let mut blocks = vec![0; request.blocks_len()];
            self.read_blocks(request.sectors().start, &mut blocks)?;
            buf.copy_from_slice(&blocks[request.in_blocks()]);
        }
        let len = buf.len() as u64;
        self.counters.bytes_read.fetch_add(len, Relaxed);
        Ok(())
    }

    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if a partly written block does not match its tag, [`Error::ReadOnly`],
    /// [`Error::PastEnd`], [`Error::Source`], [`Error::Latched`].
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let Some(request) = self.request(offset, bytes.len() as u64)? else {
            return self.check_writable();
        };
        if request.is_aligned() {
            let sector = request.sectors().start;
            let tags = self.blocks.tagger.tags(sector, bytes);
            let _guard = self.lock_to_change(request.sectors())?;
            self.consistency.write(&self.blocks, sector, bytes, &tags)?;
        } else {
            let _guard = self.lock_to_change(request.sectors())?;
            self.write_parts(&request, bytes)?;
        }
        let len = bytes.len() as u64;
        self.counters.bytes_written.fetch_add(len, Relaxed);
        Ok(())
    }

    /// Returns when every write that returned before this call is durable.
    ///
    /// # Errors
    /// [`Error::Latched`].
    pub fn flush(&self) -> Result<(), Error> {
        self.unflushed.note_flush();
        match &self.consistency {
            Consistency::Bitmap(bitmap) if bitmap.is_clearing_due() => {
                let end = self.blocks.geometry.provided_data_sectors;
                let _all = self.locks.lock(0..end, Access::Exclusive);
                self.consistency.flush(&self.blocks)?;
                bitmap.clear_below(self.recalculation.position().unwrap_or(u64::MAX))
            }
            consistency => consistency.flush(&self.blocks),
        }
    }

    /// Zeroes `len` bytes from `offset` on, without writing zeros where the storage can deallocate
    /// instead.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        let Some(request) = self.request(offset, len)? else {
            return self.check_writable();
        };
        let Split { edges, whole } = request.split();
        let _guard = self.lock_to_change(request.sectors())?;
        self.zero_edges(edges)?;
        self.consistency.zero(&self.blocks, whole)
    }

    /// Discards `len` bytes from `offset` on. Blocks that lie entirely in the range then read as
    /// zeros, and their space is deallocated where the storage supports it.
    ///
    /// # Errors
    /// [`Error::DiscardNotAllowed`], [`Error::ReadOnly`], [`Error::PastEnd`], [`Error::Latched`].
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        let Some(request) = self.request(offset, len)? else {
            return self.check_writable();
        };
        let whole = request.split().whole;
        let _guard = self.lock_to_change(whole.clone())?;
        self.discard_blocks(whole)
    }

    /// As [`Self::discard`], but the whole range then reads as zeros: partial blocks at its ends
    /// are zeroed.
    ///
    /// # Errors
    /// As [`Self::discard`] and [`Self::write_at`].
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<(), Error> {
        let Some(request) = self.request(offset, len)? else {
            return self.check_writable();
        };
        let Split { edges, whole } = request.split();
        let _guard = self.lock_to_change(request.sectors())?;
        self.discard_blocks(whole)?;
        self.zero_edges(edges)
    }

    /// Flushes the volume and closes it cleanly.
    ///
    /// Dropping a volume without this is like a crash, except that no write that reached the
    /// storage is lost.
    ///
    /// # Errors
    /// [`Error::Latched`].
    pub fn close(self) -> Result<(), Error> {
        self.consistency
            .close(&self.blocks, &self.ring, &self.superblock)
    }

    fn check_writable(&self) -> Result<(), Error> {
        if self.mode().is_read_only() {
            Err(Error::ReadOnly)
        } else {
            self.blocks.storage.check_latch()
        }
    }

    /// The request for `len` bytes from `offset` on; `None` if `len` is 0.
    fn request(&self, offset: u64, len: u64) -> Result<Option<Request>, Error> {
        let size = self.size();
        let range = match offset.checked_add(len) {
            Some(end) if end <= size => offset..end,
            _ => return Err(Error::PastEnd { offset, len, size }),
        };
        let block_size = self.blocks.geometry.shape.block_size;
        Ok((len > 0).then(|| Request::new(range, block_size)))
    }

    /// Locks sectors that are about to be changed. Fails if a write or flush has failed by the time
    /// the lock is acquired.
    fn lock_to_change(&self, sectors: Range<u64>) -> Result<Change<'_>, Error> {
        let locked = self.locks.lock(sectors, Access::Exclusive);
        self.check_writable()?;
        Ok(Change {
            unflushed: &self.unflushed,
            _locked: locked,
        })
    }

    /// Writes parts of blocks. The blocks must be locked.
    fn write_parts(&self, request: &Request, bytes: &[u8]) -> Result<(), Error> {
        let sector = request.sectors().start;
        let blocks = self.merged(request, bytes)?;
        let tags = self.blocks.tagger.tags(sector, &blocks);
        self.consistency.write(&self.blocks, sector, &blocks, &tags)
    }

    fn discard_blocks(&self, sectors: Range<u64>) -> Result<(), Error> {
        if self.allows_discards {
            self.consistency.discard(&self.blocks, sectors)
        } else {
            Err(Error::DiscardNotAllowed)
        }
    }

    /// Zeroes the partial blocks at both ends of a range. They must be locked.
    fn zero_edges(&self, edges: [Range<u64>; 2]) -> Result<(), Error> {
        edges.into_iter().try_for_each(|edge| {
            let zeros = vec![0; (edge.end - edge.start) as usize];
            let request = self.request(edge.start, edge.end - edge.start)?;
            request.map_or(Ok(()), |request| self.write_parts(&request, &zeros))
        })
    }
}
