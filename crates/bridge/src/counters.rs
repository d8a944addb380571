use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// A number that any thread can change.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }

    pub(crate) fn subtract(&self, number: u64) {
        let before = self.0.fetch_sub(number, Relaxed);
        debug_assert!(before >= number, "more is subtracted than was added");
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of a bridge.
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

/// Statistics of a bridge.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BridgeStatus {
    /// Opens by result.
    pub opens: Opens,
    /// Opens that the policy decided to pass through.
    pub passthrough: PassthroughStatus,
    /// Reads and writes that this process relayed.
    pub relayed: Relayed,
    /// Files that the kernel remembers.
    pub remembered_files: usize,
    /// Recently used files that are held open.
    pub held_files: usize,
    /// The policy, if it was read from a file.
    pub policy: Option<PolicyStatus>,
}

/// A policy that was read from a file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyStatus {
    /// Its absolute path, as [`printable`](verimount_names::printable) shows it.
    pub file: String,
    /// When the policy in force was read, in seconds since 1970.
    pub loaded: u64,
    /// How the file could not be read again since then, most recently.
    pub failure: Option<ReloadFailure>,
}

/// A policy that could not be read again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReloadFailure {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Why.
    pub reason: String,
}

/// Opens by result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Opens {
    /// Passed through.
    pub passthrough: u64,
    /// Relayed, because of the policy or because the file could not be passed through.
    pub relay: u64,
    /// Denied, including other denied operations: changes of length, and creating, moving or
    /// removing names.
    pub denied: u64,
    /// Matched by an `audit` rule.
    pub audited: u64,
    /// Served in another mode than decided, because the file was already open.
    pub followed: u64,
}

/// Opens that the policy decided to pass through.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PassthroughStatus {
    /// Opens that are passed through now.
    pub open: u64,
    /// Backing files that were registered with the kernel.
    pub registered: u64,
    /// Opens that reused a registered backing file.
    pub reused: u64,
    /// Idle backing files, kept for the next open.
    pub idle: usize,
    /// Opens that were relayed because the kernel refused to pass them through.
    pub fallbacks: u64,
    /// The error after which no file is passed through any more.
    pub refusal: Option<String>,
}

/// Reads and writes that this process relayed.
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
    /// Counts an open, by its serving mode.
    pub(crate) fn opened(&self, is_passed_through: bool) {
        if is_passed_through {
            self.passthrough_opens.add(1);
        } else {
            self.relay_opens.add(1);
        }
    }

    /// Counts a relayed read of this many bytes.
    pub(crate) fn relayed_read(&self, bytes: usize) {
        self.relayed_reads.add(1);
        self.relayed_read_bytes.add(bytes as u64);
    }

    /// Counts a relayed write of this many bytes.
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
