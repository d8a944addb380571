use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use serde::{Deserialize, Serialize};
use verimount_integrity::Volume;
use verimount_source::{Counting, FileStorage};

use crate::Daemon;

/// What a mounted volume does and did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeStatus {
    /// Who serves it, and has closed the volume when it ends.
    pub daemon: Option<Daemon>,
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
    /// Blocks that were read and did not match their tags.
    pub mismatches: u64,
    /// The first sector that is not checked yet, because its tag is to be computed anew after a
    /// crash.
    pub unchecked_from: Option<u64>,
    /// Why nothing can be written any more.
    pub failure: Option<String>,
    /// What the kernel asked.
    pub requests: VolumeRequests,
    /// What was asked of the volume's devices, all of them together.
    pub storage: StorageCounts,
}

/// How many requests of each kind reached the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeRequests {
    /// Parts read.
    pub read: u64,
    /// Parts written.
    pub write: u64,
    /// Times that what was written had to be made durable.
    pub flush: u64,
    /// Parts discarded.
    pub discard: u64,
    /// Parts made zero.
    pub zero: u64,
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

/// Counts requests as they come.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    pub(crate) read: AtomicU64,
    pub(crate) write: AtomicU64,
    pub(crate) flush: AtomicU64,
    pub(crate) discard: AtomicU64,
    pub(crate) zero: AtomicU64,
}

impl RequestCounters {
    fn get(&self) -> VolumeRequests {
        VolumeRequests {
            read: self.read.load(Relaxed),
            write: self.write.load(Relaxed),
            flush: self.flush.load(Relaxed),
            discard: self.discard.load(Relaxed),
            zero: self.zero.load(Relaxed),
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

/// What `volume` does and did.
pub(crate) fn status(
    volume: &Volume,
    devices: &[Arc<Counting<FileStorage>>],
    requests: &RequestCounters,
) -> VolumeStatus {
    let stats = volume.stats();
    VolumeStatus {
        daemon: Daemon::current(),
        mode: volume.mode().to_string(),
        size: volume.size(),
        block_size: volume.superblock().block_size().bytes() as u64,
        bytes_read: stats.bytes_read,
        bytes_written: stats.bytes_written,
        mismatches: stats.mismatches,
        unchecked_from: volume.recalculation_sector(),
        failure: volume.failure(),
        requests: requests.get(),
        storage: StorageCounts::of(devices),
    }
}
