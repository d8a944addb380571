use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::SystemTime,
};

use verimount_sync::Mutex;

use crate::{Error, budget::bytes_of_process, engine::Engine};

/// What a [`Session`](crate::Session) has done so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RemoteStats {
    /// Requests that were sent, with those that were redirected or failed.
    pub requests: u64,
    /// Bytes of files that were received.
    pub bytes: u64,
    /// Attempts that failed and were repeated.
    pub retries: Retries,
    /// Bytes that were dropped because what uses them found them wrong.
    pub distrusted: u64,
    /// How often a file was of another version than before.
    pub changes: u64,
    /// The last failure, which may have been repaired by a retry.
    pub last_failure: Option<RemoteFailure>,
    /// Bytes that the process keeps in memory of what it fetched, in all sessions.
    pub memory: u64,
    /// How many those are, at most, but for what readers wait for.
    pub memory_limit: u64,
}

/// Attempts that failed and were repeated, by what was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Retries {
    /// The server could not answer then.
    pub busy: u64,
    /// No connection could be made.
    pub unreachable: u64,
    /// A transfer broke off.
    pub broken: u64,
}

/// A request or transfer that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFailure {
    /// What was wrong.
    pub error: Error,
    /// When.
    pub at: SystemTime,
}

/// Counts for [`RemoteStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    bytes: AtomicU64,
    busy: AtomicU64,
    unreachable: AtomicU64,
    broken: AtomicU64,
    distrusted: AtomicU64,
    changes: AtomicU64,
    last_failure: Mutex<Option<RemoteFailure>>,
}

impl Counters {
    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn distrusted(&self, bytes: u64) {
        self.distrusted.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self, error: &Error) {
        let failure = RemoteFailure {
            error: error.clone(),
            at: SystemTime::now(),
        };
        *self.last_failure.lock() = Some(failure);
    }

    pub(crate) fn retried(&self, error: &Error) {
        let count = match error {
            Error::Busy { .. } => &self.busy,
            Error::Unreachable(_) => &self.unreachable,
            _ => &self.broken,
        };
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn get(&self) -> RemoteStats {
        RemoteStats {
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            retries: Retries {
                busy: self.busy.load(Relaxed),
                unreachable: self.unreachable.load(Relaxed),
                broken: self.broken.load(Relaxed),
            },
            distrusted: self.distrusted.load(Relaxed),
            changes: self.changes.load(Relaxed),
            last_failure: self.last_failure.lock().clone(),
            memory: Engine::of_process().memory(),
            memory_limit: bytes_of_process(),
        }
    }
}
