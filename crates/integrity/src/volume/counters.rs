use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use verimount_sync::Mutex;

use crate::BadBlock;

/// How many of the last blocks that did not match are kept.
const RECENT: usize = 16;

/// Statistics of an open volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VolumeStats {
    /// Bytes that were read and matched their tags.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Blocks that were read and did not match their tags.
    pub mismatches: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    mismatches: AtomicU64,
    recent: Mutex<VecDeque<BadBlock>>,
}

impl Counters {
    pub(super) fn count_read(&self, len: usize) {
        self.bytes_read.fetch_add(len as u64, Relaxed);
    }

    pub(super) fn count_write(&self, len: usize) {
        self.bytes_written.fetch_add(len as u64, Relaxed);
    }

    /// Counts blocks that did not match, and keeps the last of them.
    pub(super) fn note_mismatches(&self, bad: &[BadBlock]) {
        let mut recent = self.recent.lock();
        for block in bad.iter().rev().take(RECENT).rev() {
            // One that is met again and again does not hide the others.
            recent.retain(|known| known.sector != block.sector);
            if recent.len() == RECENT {
                recent.pop_front();
            }
            recent.push_back(block.clone());
        }
        drop(recent);
        self.mismatches.fetch_add(bad.len() as u64, Relaxed);
    }

    /// The last blocks that did not match, each once, the latest last.
    pub(super) fn recent_mismatches(&self) -> Vec<BadBlock> {
        self.recent.lock().iter().cloned().collect()
    }

    pub(super) fn stats(&self) -> VolumeStats {
        VolumeStats {
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            mismatches: self.mismatches.load(Relaxed),
        }
    }
}
