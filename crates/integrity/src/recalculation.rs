use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use crate::{Algorithm, Integrity, Superblock, bitmap::BitmapLayout, bits::Bits};

/// How far computing tags anew has come. Until it has come to a sector, the sector's tag may be
/// wrong, and is not checked.
#[derive(Debug)]
pub(crate) struct Recalculation {
    /// The first sector that it has not come to.
    position: AtomicU64,
    end: u64,
    /// Regions of which tags may be wrong; none: all of them.
    regions: Option<(BitmapLayout, Bits)>,
}

impl Recalculation {
    /// From `position` on, of a volume of `end` sectors.
    pub(crate) fn new(position: u64, end: u64, regions: Option<(BitmapLayout, Bits)>) -> Self {
        Self {
            position: AtomicU64::new(position),
            end,
            regions,
        }
    }

    /// Whether a volume's tags may be computed anew. Where they are keyed that would vouch for data
    /// that somebody without the key has changed, who need only change the superblock to have it
    /// done: so that must have a MAC.
    pub(crate) fn is_allowed(integrity: &Integrity, superblock: &Superblock) -> bool {
        let is_keyed = Algorithm::is_keyed(integrity.algorithm);
        match superblock.has_hmac_fix() {
            true => !is_keyed || superblock.has_journal_mac(),
            false => !is_keyed && !superblock.has_journal_mac(),
        }
    }

    /// The first sector that it has not come to; none if it has come to the end.
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

    /// The next `most` sectors of which tags may be wrong, or fewer.
    pub(crate) fn next(&self, most: u64) -> Option<Range<u64>> {
        let mut start = self.position()?;
        let mut end = start.saturating_add(most).min(self.end);
        if let Some((layout, bits)) = &self.regions {
            let is_dirty = |sector| bits.contains(layout.bit(sector));
            let end_of_region = |sector| layout.end(layout.bit(sector));
            while start < self.end && !is_dirty(start) {
                start = end_of_region(start);
            }
            // What is behind them is right, and stays checked.
            end = start;
            let most = start.saturating_add(most).min(self.end);
            while end < most && is_dirty(end) {
                end = end_of_region(end).min(most);
            }
        }
        Some(start.min(self.end)..end.min(self.end))
    }

    /// Notes that it has come to `sector`.
    pub(crate) fn advance(&self, sector: u64) {
        self.position.store(sector, SeqCst);
    }
}
