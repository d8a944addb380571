use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use verimount_audit::{AuditStatus, RuleCounts};

/// A number that any thread can change. A copy has the value of its moment.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }

    pub(crate) fn subtract(&self, number: u64) {
        let before = self.0.fetch_sub(number, Relaxed);
        debug_assert!(before >= number, "more is subtracted than was added");
    }

    /// Its present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Clone for Counter {
    fn clone(&self) -> Self {
        Self(self.get().into())
    }
}

impl PartialEq for Counter {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Counter {}

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
    /// What rules have audited and denied, in their order.
    pub rules: Vec<RuleStatus>,
    /// The audit log, if there is one.
    pub audit: Option<AuditStatus>,
}

/// What a rule has audited or denied.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleStatus {
    /// The rule, as messages name it.
    pub rule: String,
    /// How often.
    #[serde(flatten)]
    pub counts: RuleCounts,
}

impl From<(String, RuleCounts)> for RuleStatus {
    fn from((rule, counts): (String, RuleCounts)) -> Self {
        Self { rule, counts }
    }
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
    pub passthrough: Counter,
    /// Relayed, because of the policy or because the file could not be passed through.
    pub relay: Counter,
    /// Denied, including other denied operations: changes of length, and creating, moving or
    /// removing names.
    pub denied: Counter,
    /// Matched by an `audit` rule.
    pub audited: Counter,
    /// Served in another mode than decided, because the file was already open.
    pub followed: Counter,
}

/// Opens that the policy decided to pass through.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PassthroughStatus {
    /// Opens that are passed through now.
    pub open: Counter,
    /// Backing files that were registered with the kernel.
    pub registered: Counter,
    /// Opens that reused a registered backing file.
    pub reused: Counter,
    /// Idle backing files, kept for the next open.
    pub idle: usize,
    /// Opens that were relayed because the kernel refused to pass them through.
    pub fallbacks: Counter,
    /// The error after which no file is passed through any more.
    pub refusal: Option<String>,
}

/// Reads and writes that this process relayed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Relayed {
    /// Reads.
    pub reads: Counter,
    /// Bytes that were read.
    pub read_bytes: Counter,
    /// Writes.
    pub writes: Counter,
    /// Bytes that were written.
    pub written_bytes: Counter,
}
