//! The guest's writes to a volume, which the host can compute as well.

use std::ops::Range;

use verimount_integrity::SECTOR;
use verimount_testkit::{Random, noise};

use super::kind::Kind;

/// The size of the written part of a volume, in sectors.
pub(super) const SECTORS: u64 = 6144;

/// The number of writes between two flushes.
pub(super) const WRITES_PER_FLUSH: u64 = 16;

/// The most blocks of 4096 bytes in a write.
const MAX_BLOCKS: usize = 12;

/// The writes to one volume. Each has a number, its *generation*, from 1 on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    /// The number of the volume.
    volume: u64,
    /// The block size in sectors.
    pub(super) block_sectors: u64,
}

impl Sequence {
    pub(super) fn new(volume: usize, kind: &Kind) -> Self {
        Self {
            volume: volume as u64,
            block_sectors: kind.block_size / SECTOR,
        }
    }

    /// The sectors of a write, which are whole blocks.
    pub(super) fn write(&self, generation: u64) -> Range<u64> {
        let mut random = Random::new(self.volume << 32 | generation);
        let blocks = (SECTORS / self.block_sectors) as usize;
        let most = MAX_BLOCKS * (8 / self.block_sectors) as usize;
        let start = random.below(blocks);
        let end = blocks.min(start + 1 + random.below(most));
        start as u64 * self.block_sectors..end as u64 * self.block_sectors
    }

    /// The last write that was flushed before this one.
    pub(super) fn flushed_before(generation: u64) -> u64 {
        generation.saturating_sub(1) / WRITES_PER_FLUSH * WRITES_PER_FLUSH
    }

    /// The content of a sector after a write: its position and generation, and a unique pattern.
    pub(super) fn bytes(&self, sector: u64, generation: u64) -> Vec<u8> {
        let place = self.volume << 32 | sector;
        let mut bytes = [place.to_le_bytes(), generation.to_le_bytes()].concat();
        bytes.extend(noise(
            SECTOR as usize - bytes.len(),
            place << 16 ^ generation,
        ));
        bytes
    }

    /// The write that produced a sector's content; 0 if it is zero, as before the first write; `None` if no
    /// write produces it.
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
