use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crate::node::NodeId;

/// Number of parts that are locked one by one.
const SHARDS: usize = 16;

/// The files that are open now: the only way to those that have no name any more.
#[derive(Debug, Default)]
pub(crate) struct OpenedFiles([Mutex<Shard>; SHARDS]);

type Shard = HashMap<NodeId, Vec<Weak<OwnedFd>>>;

impl OpenedFiles {
    /// A descriptor of a file that is open.
    pub(crate) fn get(&self, node: NodeId) -> Option<Arc<OwnedFd>> {
        let shard = self.shard(node);
        shard.get(&node)?.iter().find_map(Weak::upgrade)
    }

    /// Notes that a file was opened, for as long as what is returned lives.
    pub(crate) fn enter(self: &Arc<Self>, node: NodeId, file: &Arc<OwnedFd>) -> Opened {
        let mut shard = self.shard(node);
        shard.entry(node).or_default().push(Arc::downgrade(file));
        Opened {
            node,
            files: Arc::clone(self),
        }
    }

    fn shard(&self, node: NodeId) -> MutexGuard<'_, Shard> {
        let shard = self.0[node.spread(SHARDS)].lock();
        shard.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says of a file that it is open. To be dropped after the descriptor.
#[derive(Debug)]
pub(crate) struct Opened {
    node: NodeId,
    files: Arc<OpenedFiles>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut shard = self.files.shard(self.node);
        if let Some(open) = shard.get_mut(&self.node) {
            open.retain(|file| file.strong_count() != 0);
            if open.is_empty() {
                shard.remove(&self.node);
            }
        }
    }
}
