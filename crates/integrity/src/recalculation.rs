use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use verimount_sync::{Mutex, MutexGuard};

use crate::{Algorithm, bitmap::BitmapLayout, bits::Bits};

/// The progress of recalculating tags. Sectors that it has not reached may have wrong tags and are
/// not checked.
#[derive(Debug)]
pub(crate) struct Recalculation {
    /// The first sector that has not been recalculated.
    position: AtomicU64,
    end: u64,
    /// Regions whose tags may be wrong; `None`: all regions.
    regions: Option<(BitmapLayout, Bits)>,
    /// Held by the thread that recalculates.
    working: Mutex<()>,
}

impl Recalculation {
    /// A recalculation that continues at `position`, of a volume of `end` sectors.
    pub(crate) fn new(position: u64, end: u64, regions: Option<(BitmapLayout, Bits)>) -> Self {
        Self {
            position: AtomicU64::new(position),
            end,
            regions,
            working: Mutex::default(),
        }
    }

    /// One thread recalculates at a time: another one would give new tags to blocks that are checked again.
    pub(crate) fn work(&self) -> MutexGuard<'_, ()> {
        self.working.lock()
    }

    /// Whether tags of this algorithm may be recalculated, on a volume with or without the HMAC fix and a journal MAC.
    /// With keyed tags this would put valid tags on data that an attacker without the key has changed. Setting the flag
    /// in the superblock would suffice to trigger it, so the superblock must have a MAC.
    pub(crate) fn is_allowed(
        algorithm: Algorithm,
        has_hmac_fix: bool,
        has_journal_mac: bool,
    ) -> bool {
        if has_hmac_fix {
            !algorithm.is_keyed() || has_journal_mac
        } else {
            !algorithm.is_keyed() && !has_journal_mac
        }
    }

    /// The first sector that has not been recalculated; `None` at the end.
    pub(crate) fn position(&self) -> Option<u64> {
        let position = self.position.load(SeqCst);
        (position < self.end).then_some(position)
    }

    /// Whether the tag of the block at `sector` may be wrong.
    pub(crate) fn is_unchecked(&self, sector: u64) -> bool {
        let has_come_to_it = sector < self.position.load(SeqCst);
        !has_come_to_it
            && self
                .regions
                .as_ref()
                .is_none_or(|(layout, bits)| bits.contains(layout.bit(sector)))
    }

    /// The next sectors whose tags may be wrong, at most `most`.
    pub(crate) fn next(&self, most: u64) -> Option<Range<u64>> {
        let mut start = self.position()?;
        let mut end = start.saturating_add(most).min(self.end);
        if let Some((layout, bits)) = &self.regions {
            let is_dirty = |sector| bits.contains(layout.bit(sector));
            let end_of_region = |sector| layout.end(layout.bit(sector));
            while start < self.end && !is_dirty(start) {
                start = end_of_region(start);
            }
            // The sectors after the dirty regions have valid tags and stay checked.
            end = start;
            let most = start.saturating_add(most).min(self.end);
            while end < most && is_dirty(end) {
                end = end_of_region(end).min(most);
            }
        }
        Some(start.min(self.end)..end.min(self.end))
    }

    /// Records that all sectors before `sector` are done.
    pub(crate) fn advance(&self, sector: u64) {
        debug_assert!(sector <= self.end);
        self.position.store(sector, SeqCst);
    }
}
