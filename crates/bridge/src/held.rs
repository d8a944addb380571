use std::{collections::hash_map::RandomState, os::fd::OwnedFd, sync::Arc};

use quick_cache::{Lifecycle, UnitWeighter, sync::Cache};
use rustix::process::{Resource, getrlimit};

use crate::node::NodeId;

/// One in this many of the descriptors that the process may have is for files that were used
/// lately; the others are for files that are open, and for whoever else is in the process.
const SHARE: u64 = 4;

/// The most that is held where the limit is high. More would hardly be used again, and each keeps
/// a file that others delete on the disk.
const MAX_HELD: u64 = 4096;

/// Files that were used lately, each held open as a path only, by which it is at hand whatever it
/// is called. Bounded; the least useful is let go.
#[derive(Debug)]
pub(crate) struct HeldFiles(Cache<NodeId, Arc<OwnedFd>, UnitWeighter, RandomState, CollectEvicted>);

/// Hands what had to make room to whoever inserted, as there is I/O to be done about it.
#[derive(Debug, Clone, Copy)]
struct CollectEvicted;

/// What had to make room.
pub(crate) type Evicted = Vec<(NodeId, Arc<OwnedFd>)>;

impl Lifecycle<NodeId, Arc<OwnedFd>> for CollectEvicted {
    type RequestState = Evicted;

    fn on_evict(&self, evicted: &mut Evicted, node: NodeId, file: Arc<OwnedFd>) {
        evicted.push((node, file));
    }
}

impl HeldFiles {
    /// Holds as many files as this process's limit of open files suggests.
    pub(crate) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let capacity = (limit / SHARE).min(MAX_HELD);
        Self(Cache::with(
            capacity as usize,
            capacity,
            UnitWeighter,
            RandomState::new(),
            CollectEvicted,
        ))
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<Arc<OwnedFd>> {
        self.0.get(&node)
    }

    /// Holds a file. What has to make room is returned.
    #[must_use]
    pub(crate) fn insert(&self, node: NodeId, file: Arc<OwnedFd>) -> Evicted {
        let mut evicted = Vec::new();
        self.0.insert_with_lifecycle(node, file, &mut evicted);
        evicted
    }

    pub(crate) fn remove(&self, node: NodeId) {
        self.0.remove(&node);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
