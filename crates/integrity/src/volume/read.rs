//! Reading whole blocks, and handling those that do not match their tags.

use std::sync::atomic::Ordering::Relaxed;

use verimount_source::{ReadAt, ReadError};

use crate::{BadBlock, Error, SECTOR, Volume};

use super::Request;

impl Volume {
    /// Reads whole blocks, and fails if any does not match its tag.
    pub(super) fn read_blocks(&self, sector: u64, buf: &mut [u8]) -> Result<(), Error> {
        let bad = self.find_bad_blocks(sector, buf)?;
        self.recent_mismatches.note(&bad);
        let count = bad.len() as u64;
        self.counters.mismatches.fetch_add(count, Relaxed);
        for block in &bad {
            tracing::error!(
                sector = block.sector,
                expected = %block.expected,
                actual = %block.actual,
                looks_discarded = block.is_discarded(),
                "a block does not match its tag"
            );
        }
        match bad.into_iter().next() {
            Some(first) => Err(Error::Mismatch {
                first: Box::new(first),
                more: count - 1,
            }),
            None => Ok(()),
        }
    }

    /// Reads whole blocks, and returns those that fail verification. Discarded and not yet
    /// recalculated blocks are not counted.
    pub(super) fn find_bad_blocks(
        &self,
        sector: u64,
        buf: &mut [u8],
    ) -> Result<Vec<BadBlock>, Error> {
        let mut bad = self.consistency.read(&self.blocks, sector, buf)?;
        if self.allows_discards {
            bad.retain(|block| {
                let is_discarded = block.is_discarded();
                if is_discarded {
                    // Whatever the storage returns for a discarded block, no client wrote it.
                    let start = ((block.sector - sector) * SECTOR) as usize;
                    let len = self.blocks.geometry.shape.block_size.bytes();
                    buf[start..start + len].fill(0);
                }
                !is_discarded
            });
        }
        bad.retain(|block| !self.recalculation.is_unchecked(block.sector));
        Ok(bad)
    }

    /// The whole blocks that a request touches, with `bytes` merged into them.
    pub(super) fn merged(&self, request: &Request, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let mut blocks = vec![0; request.blocks_len()];
        for edge in request.partial_blocks() {
            let sector = request.sectors().start + edge.start as u64 / SECTOR;
            self.read_blocks(sector, &mut blocks[edge])?;
        }
        blocks[request.in_blocks()].copy_from_slice(bytes);
        Ok(blocks)
    }
}

impl ReadAt for Volume {
    fn size(&self) -> u64 {
        self.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.read_at(buf, offset).map_err(|error| match error {
            Error::Source(error) => error,
            error => ReadError::Rejected(Box::new(error)),
        })
    }
}
