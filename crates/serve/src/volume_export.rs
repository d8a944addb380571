use std::sync::Arc;

use rustix::io::Errno;
use verimount_integrity::{Interleave, Mode, SECTOR, Volume};
use verimount_nbd::{BlockSizes, Export};

use crate::errno::volume_failed;

/// The largest request that is said to do best, in bytes. Tags are collected across requests, so
/// larger ones gain nothing.
const MAX_PREFERRED: u64 = 1 << 20;

/// The adapter between NBD and a [`Volume`].
pub struct VolumeExport {
    volume: Arc<Volume>,
    allows_discards: bool,
}

impl VolumeExport {
    /// Serves `volume`, of which parts may be discarded if it was opened so.
    pub fn new(volume: Arc<Volume>, allows_discards: bool) -> Self {
        Self {
            volume,
            allows_discards,
        }
    }
}

impl Export for VolumeExport {
    fn size(&self) -> u64 {
        self.volume.size()
    }

    fn block_sizes(&self) -> BlockSizes {
        let superblock = self.volume.superblock();
        let interleave = |interleave: Interleave| SECTOR << interleave.log2_sectors();
        let preferred = superblock.interleave().map_or(MAX_PREFERRED, interleave);
        BlockSizes {
            minimum: superblock.block_size().bytes() as u32,
            preferred: preferred.min(MAX_PREFERRED) as u32,
        }
    }

    fn is_read_only(&self) -> bool {
        self.volume.mode() == Mode::RecoveryUnverified
    }

    fn can_trim(&self) -> bool {
        self.allows_discards
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> Result<(), Errno> {
        let read = self.volume.read_at(buf, offset);
        read.map_err(|error| volume_failed(&error))
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Errno> {
        let written = self.volume.write_at(bytes, offset);
        written.map_err(|error| volume_failed(&error))
    }

    fn flush(&self) -> Result<(), Errno> {
        self.volume.flush().map_err(|error| volume_failed(&error))
    }

    fn trim(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let discarded = self.volume.discard(offset, len);
        discarded.map_err(|error| volume_failed(&error))
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let zeroed = self.volume.write_zeroes(offset, len);
        zeroed.map_err(|error| volume_failed(&error))
    }
}
