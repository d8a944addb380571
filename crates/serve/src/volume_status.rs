use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verimount_integrity::{BadBlock, Volume};
use verimount_source::{Counting, FileStorage};

/// What a volume does and did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    /// What is done to survive a crash.
    pub mode: String,
    /// Size of the disk in bytes.
    pub size: u64,
    /// Size of the blocks that have a tag each, in bytes.
    pub block_size: u64,
    /// Bytes that were read and matched their tags.
    pub bytes_read: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// The first sector that is not checked yet, because its tag is to be computed anew after a
    /// crash.
    pub unchecked_from: Option<u64>,
    /// Why nothing can be written any more.
    pub failure: Option<String>,
    /// The last blocks that did not match their tags, each once, the latest last.
    pub recent_mismatches: Vec<BadSector>,
    /// What was asked of the volume's devices, all of them together.
    pub storage: StorageCounts,
}

/// A block that did not match its tag.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BadSector {
    /// The disk's sector of 512 bytes at which the block begins.
    pub sector: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// What was asked of devices: data, tags and all that the mode needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes that they asked for.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Bytes made zero without writing zeros, where the device can.
    pub zeroed_bytes: u64,
    /// Flushes, and writes that were to be durable at once.
    pub flushes: u64,
}

impl BadSector {
    fn of(block: &BadBlock) -> Self {
        Self {
            sector: block.sector,
            reason: block.to_string(),
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
    /// What `volume`, which is on `devices`, does and did.
    pub(crate) fn of(volume: &Volume, devices: &[Arc<Counting<FileStorage>>]) -> Self {
        let stats = volume.stats();
        Self {
            mode: volume.mode().to_string(),
            size: volume.size(),
            block_size: volume.superblock().block_size().bytes() as u64,
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
