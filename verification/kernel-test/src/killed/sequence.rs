//! What the guest writes to a volume, which the host knows as well.

use std::ops::Range;

use verimount_integrity::SECTOR;
use verimount_testkit::{Random, noise};

use super::kind::Kind;

/// How much of a volume is written, in sectors.
pub(super) const SECTORS: u64 = 6144;

/// How many writes there are from one flush to the next.
pub(super) const WRITES_PER_FLUSH: u64 = 16;

/// The most blocks of 4096 bytes that are written at a time.
const MAX_BLOCKS: usize = 12;

/// The writes to one volume. Each has a number, its *generation*, from 1 on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    /// Which of the volumes.
    volume: u64,
    /// A block in sectors.
    pub(super) block_sectors: u64,
}

impl Sequence {
    pub(super) fn new(volume: usize, kind: &Kind) -> Self {
        Self {
            volume: volume as u64,
            block_sectors: kind.block_size / SECTOR,
        }
    }

    /// The sectors that are written, which are whole blocks.
    pub(super) fn write(&self, generation: u64) -> Range<u64> {
        let mut random = Random::new(self.volume << 32 | generation);
        let blocks = (SECTORS / self.block_sectors) as usize;
        let most = MAX_BLOCKS * (8 / self.block_sectors) as usize;
        let start = random.below(blocks);
        let end = blocks.min(start + 1 + random.below(most));
        start as u64 * self.block_sectors..end as u64 * self.block_sectors
    }

    /// The last write that was flushed before this one began.
    pub(super) fn flushed_before(generation: u64) -> u64 {
        generation.saturating_sub(1) / WRITES_PER_FLUSH * WRITES_PER_FLUSH
    }

    /// What a write makes of a sector: its place and generation, and what nothing else would have.
    pub(super) fn bytes(&self, sector: u64, generation: u64) -> Vec<u8> {
        let place = self.volume << 32 | sector;
        let mut bytes = [place.to_le_bytes(), generation.to_le_bytes()].concat();
        bytes.extend(noise(
            SECTOR as usize - bytes.len(),
            place << 16 ^ generation,
        ));
        bytes
    }

    /// Which write made a sector what it is; 0 if it is zero, as before the first; none if no write
    /// makes that of it.
    pub(super) fn generation(&self, sector: u64, bytes: &[u8]) -> Option<u64> {
        let (_, rest) = bytes.split_first_chunk::<8>()?;
        let generation = u64::from_le_bytes(*rest.first_chunk()?);
        let is_whole = match generation {
            0 => bytes.iter().all(|byte| *byte == 0),
            _ => bytes == self.bytes(sector, generation),
        };
        is_whole.then_some(generation)
    }
}
