//! What is fetched has these bounds in a process, however many files are open.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use verimount_source::GRANULE;

use crate::engine::Engine;

/// The memory for what was fetched, in bytes, if nobody says otherwise.
const MEMORY: u64 = 48 << 20;

/// The least such memory, in bytes.
const MIN_MEMORY: u64 = 4 << 20;

/// That of this process.
static OF_PROCESS: AtomicU64 = AtomicU64::new(MEMORY);

/// Sets how many bytes this process keeps in memory of what was fetched, for all content together: 48 MiB if it is not called, at
/// least 4 MiB, and beyond that what readers wait for.
pub fn set_fetch_memory(bytes: u64) {
    OF_PROCESS.store(bytes.max(MIN_MEMORY), Relaxed);
    Engine::of_process().set_memory(fetch_memory_limit());
}

/// How many bytes this process keeps in memory of what was fetched, at most, but for what readers wait for.
pub fn fetch_memory_limit() -> u64 {
    OF_PROCESS.load(Relaxed)
}

/// How many bytes this process keeps in memory of what it fetched, in all sessions.
pub fn fetch_memory() -> u64 {
    Engine::of_process().memory()
}

/// Connections, threads and memory for what is fetched. Tests have other values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// Connections at once, and threads that fetch over them. Those whose attempts have failed do not count, up to as many
    /// again: they mostly wait.
    pub(crate) connections: usize,
    /// Of these, for what nobody waits for: no reader waits behind that.
    pub(crate) early: usize,
    /// Connections to one server for what somebody waits for, and for what nobody does: one that does not answer leaves the others
    /// to those that do.
    pub(crate) of_server: PerServer,
    /// Granules kept in memory.
    pub(crate) granules: usize,
    /// Of these, granules fetched early and not read yet. Files that have some share them evenly; one that is read in order
    /// can use all of [`MAX_HINT`](crate::limits::MAX_HINT), and 8 MiB are for what else is, such as its Merkle tree.
    pub(crate) unread: usize,
    /// After this time without being read, they make room for others.
    pub(crate) stale: Duration,
    /// After this time without work, a thread ends.
    pub(crate) rest: Duration,
}

/// Connections to one server, at most or in use.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PerServer {
    /// For what somebody waits for.
    pub(crate) awaited: usize,
    /// For what will be needed soon.
    pub(crate) early: usize,
}

impl Budget {
    pub(crate) fn of_process() -> Self {
        Self::default().with_memory(fetch_memory_limit())
    }

    /// With this many bytes in memory.
    pub(crate) fn with_memory(self, bytes: u64) -> Self {
        let granules = usize::try_from(bytes / GRANULE).unwrap_or(usize::MAX);
        Self {
            granules,
            unread: granules - granules / 6,
            ..self
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        let usual = Self {
            connections: 64,
            early: 12,
            of_server: PerServer {
                awaited: 24,
                early: 6,
            },
            granules: 0,
            unread: 0,
            stale: Duration::from_secs(5),
            rest: Duration::from_secs(10),
        };
        usual.with_memory(MEMORY)
    }
}
