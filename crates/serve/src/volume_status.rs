use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verimount_integrity::{BadBlock, Volume};
use verimount_source::{Counting, FileStorage};

/// The mode and the statistics of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    /// How consistency is restored after a crash.
    pub mode: String,
    /// Size of the disk in bytes.
    pub size: u64,
    /// Size of a block, which has one tag, in bytes.
    pub block_size: u64,
    /// Bytes that were read and matched their tags.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// The first sector that is not checked yet, because its tag is still to be recalculated after a
    /// crash.
    pub unchecked_from: Option<u64>,
    /// Why nothing can be written any more.
    pub failure: Option<String>,
    /// The last blocks that did not match their tags, latest last, without repetitions.
    pub recent_mismatches: Vec<BadSector>,
    /// Requests to all devices of the volume together.
    pub storage: StorageCounts,
}

/// A block that did not match its tag.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BadSector {
    /// The sector of the disk, of 512 bytes, at which the block begins.
    pub sector: u64,
    /// What is wrong with it.
    pub reason: String,
    /// Whether its tag says that it was discarded, which is valid only where discards are allowed.
    pub is_discarded: bool,
}

/// Requests to devices, for data, tags, journal and bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes zeroed by the device or file system, without writing zeros.
    pub zeroed_bytes: u64,
    /// Flushes, and writes that are durable by themselves.
    pub flushes: u64,
}

impl BadSector {
    fn of(block: &BadBlock) -> Self {
        Self {
            sector: block.sector,
            reason: block.to_string(),
            is_discarded: block.is_discarded(),
        }
    }
}

impl StorageCounts {
    fn of(devices: &[Arc<Counting<FileStorage>>]) -> Self {
        let mut all = Self::default();
        for device in devices {
            let (reads, writes) = (device.counts(), device.write_counts());
            all.reads += reads.requests;
            all.read_bytes += reads.bytes;
            all.writes += writes.requests;
            all.written_bytes += writes.bytes;
            all.zeroed_bytes += writes.zeroed;
            all.flushes += writes.flushes + writes.durable;
        }
        all
    }
}

impl VolumeStatus {
    /// The status of `volume`, which is on `devices`.
    pub(crate) fn of(volume: &Volume, devices: &[Arc<Counting<FileStorage>>]) -> Self {
        let stats = volume.stats();
        Self {
            mode: volume.mode().to_string(),
            size: volume.size(),
            block_size: volume.superblock().shape.block_size.bytes() as u64,
            bytes_read: stats.bytes_read,
            bytes_written: stats.bytes_written,
            unchecked_from: volume.recalculation_sector(),
            failure: volume.failure(),
            recent_mismatches: volume
                .recent_mismatches()
                .iter()
                .map(BadSector::of)
                .collect(),
            storage: StorageCounts::of(devices),
        }
    }
}
