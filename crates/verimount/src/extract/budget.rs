//! Limits what an image makes of itself.

use crate::fault::{ContentFault, Fault};

/// What a hole counts, in bytes: the least that it takes in an index of chunks.
const HOLE: u64 = 4;

/// How many more bytes may be written. In an image files can share their data, so that a small image could
/// fill any disk. Holes count, too, so that they do not take any time.
pub(super) struct Budget {
    limit: u64,
    left: u64,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, left: limit }
    }

    /// Takes so many bytes from it.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), ContentFault> {
        let limit = self.limit;
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or(Fault::TooLarge { limit })?;
        Ok(())
    }

    /// Takes from it what a hole counts.
    pub(super) fn pass_hole(&mut self) -> Result<(), ContentFault> {
        self.spend(HOLE)
    }
}
