use std::collections::VecDeque;

use verimount_source::counters;
use verimount_sync::Mutex;

use crate::BadBlock;

/// How many of the last blocks that did not match are kept.
const RECENT: usize = 16;

counters! {
    /// Statistics of an open volume.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct VolumeStats {
        /// Bytes that were read and matched their tags.
        bytes_read,
        /// Bytes that were written.
        bytes_written,
        /// Blocks that were read and did not match their tags.
        mismatches,
    }
    /// Counts for [`VolumeStats`].
    pub(super) struct Counters;
}

/// The last blocks that did not match, each once, the latest last.
#[derive(Debug, Default)]
pub(super) struct RecentMismatches(Mutex<VecDeque<BadBlock>>);

impl RecentMismatches {
    pub(super) fn note(&self, bad: &[BadBlock]) {
        let mut recent = self.0.lock();
        for block in bad.iter().rev().take(RECENT).rev() {
            // One that is met again and again does not hide the others.
            recent.retain(|known| known.sector != block.sector);
            if recent.len() == RECENT {
                recent.pop_front();
            }
            recent.push_back(block.clone());
        }
    }

    pub(super) fn get(&self) -> Vec<BadBlock> {
        self.0.lock().iter().cloned().collect()
    }
}
