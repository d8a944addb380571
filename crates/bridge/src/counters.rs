use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// A number that any thread may change.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }

    pub(crate) fn subtract(&self, number: u64) {
        self.0.fetch_sub(number, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// What a bridge counts as it works.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    passthrough_opens: Counter,
    relay_opens: Counter,
    pub(crate) denied: Counter,
    pub(crate) audits: Counter,
    pub(crate) followed: Counter,
    pub(crate) passthrough_open: Counter,
    pub(crate) registered: Counter,
    pub(crate) reused: Counter,
    pub(crate) fallbacks: Counter,
    relayed_reads: Counter,
    relayed_read_bytes: Counter,
    relayed_writes: Counter,
    relayed_written_bytes: Counter,
}

/// What a bridge has done so far, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BridgeStatus {
    /// What became of opens.
    pub opens: Opens,
    /// What became of the opens that were to be passed through.
    pub passthrough: PassthroughStatus,
    /// What went through this process.
    pub relayed: Relayed,
    /// Files that the kernel remembers.
    pub remembered_files: usize,
    /// Files that are held because they were used lately.
    pub held_files: usize,
}

/// What became of opens.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Opens {
    /// Passed through.
    pub passthrough: u64,
    /// Relayed, whether the policy wanted that or the file could not be passed through.
    pub relay: u64,
    /// Denied; with what else the policy denied: new lengths, and names made, moved or removed.
    pub denied: u64,
    /// Noted by a rule that decides nothing.
    pub audited: u64,
    /// Served otherwise than decided, since the file was open already.
    pub followed: u64,
}

/// What became of the opens that were to be passed through.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PassthroughStatus {
    /// Opens that are passed through now.
    pub open: u64,
    /// Backing files that were registered with the kernel.
    pub registered: u64,
    /// Opens that were served from a backing file that was registered before.
    pub reused: u64,
    /// Backing files that are kept for the next open.
    pub idle: usize,
    /// Opens that were relayed, since the kernel would not pass them through.
    pub fallbacks: u64,
    /// Why no file is passed through any more, if so.
    pub refusal: Option<String>,
}

/// What went through this process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Relayed {
    /// Reads.
    pub reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

impl Counters {
    /// Notes that a file was opened, and how it is served.
    pub(crate) fn opened(&self, is_passed_through: bool) {
        match is_passed_through {
            true => self.passthrough_opens.add(1),
            false => self.relay_opens.add(1),
        }
    }

    /// Notes that a read of this many bytes went through this process.
    pub(crate) fn relayed_read(&self, bytes: usize) {
        self.relayed_reads.add(1);
        self.relayed_read_bytes.add(bytes as u64);
    }

    /// Notes that a write of this many bytes went through this process.
    pub(crate) fn relayed_write(&self, bytes: usize) {
        self.relayed_writes.add(1);
        self.relayed_written_bytes.add(bytes as u64);
    }

    pub(crate) fn opens(&self) -> Opens {
        Opens {
            passthrough: self.passthrough_opens.get(),
            relay: self.relay_opens.get(),
            denied: self.denied.get(),
            audited: self.audits.get(),
            followed: self.followed.get(),
        }
    }

    pub(crate) fn passthrough(&self, idle: usize, refusal: Option<String>) -> PassthroughStatus {
        PassthroughStatus {
            open: self.passthrough_open.get(),
            registered: self.registered.get(),
            reused: self.reused.get(),
            idle,
            fallbacks: self.fallbacks.get(),
            refusal,
        }
    }

    pub(crate) fn relayed(&self) -> Relayed {
        Relayed {
            reads: self.relayed_reads.get(),
            read_bytes: self.relayed_read_bytes.get(),
            writes: self.relayed_writes.get(),
            written_bytes: self.relayed_written_bytes.get(),
        }
    }
}
