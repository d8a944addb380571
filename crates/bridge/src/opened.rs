use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::{Arc, Weak},
};

use verimount_sync::{Mutex, MutexGuard};

use crate::NodeId;

/// Number of parts of the table, each with its own lock.
const SHARDS: usize = 16;

/// The files that are open now. Those without a name can be accessed only through these.
#[derive(Debug, Default)]
pub(crate) struct OpenedFiles([Mutex<Shard>; SHARDS]);

type Shard = HashMap<NodeId, Vec<Weak<OwnedFd>>>;

impl OpenedFiles {
    /// A descriptor of an open file.
    pub(crate) fn get(&self, node: NodeId) -> Option<Arc<OwnedFd>> {
        let shard = self.shard(node);
        shard.get(&node)?.iter().find_map(Weak::upgrade)
    }

    /// Registers an open file until the result is dropped.
    pub(crate) fn enter(self: &Arc<Self>, node: NodeId, file: &Arc<OwnedFd>) -> Opened {
        let file = Arc::downgrade(file);
        let mut shard = self.shard(node);
        shard.entry(node).or_default().push(Weak::clone(&file));
        let files = Arc::clone(self);
        Opened { node, file, files }
    }

    fn shard(&self, node: NodeId) -> MutexGuard<'_, Shard> {
        // Multiplied by the golden ratio, all bits of a number affect the highest.
        let spread = node.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        self.0[spread as usize % SHARDS].lock()
    }
}

/// The registration of an open file.
#[derive(Debug)]
pub(crate) struct Opened {
    node: NodeId,
    file: Weak<OwnedFd>,
    files: Arc<OpenedFiles>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut shard = self.files.shard(self.node);
        let open = shard.get_mut(&self.node);
        debug_assert!(open.is_some(), "it is registered until it is dropped");
        if let Some(open) = open {
            // Only one: opens may share a descriptor.
            let this = open.iter().position(|file| file.ptr_eq(&self.file));
            debug_assert!(this.is_some(), "each open is registered");
            if let Some(this) = this {
                open.swap_remove(this);
            }
            if open.is_empty() {
                shard.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_of_what_is_closed() {
        let files: Arc<OpenedFiles> = Arc::default();
        let node = NodeId(5);
        // Somebody else goes on holding it.
        let file = Arc::new(OwnedFd::from(std::fs::File::open("/").unwrap()));
        let (first, second) = (files.enter(node, &file), files.enter(node, &file));
        drop(first);
        assert!(files.get(node).is_some());
        drop(second);
        assert!(files.get(node).is_none());
        assert!(files.0.iter().all(|shard| shard.lock().is_empty()));
    }
}
