use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use verimount_fuse::Backing;
use verimount_tree::NodeId;

/// A loaded file, which the kernel holds as a backing file.
pub(super) struct Loaded {
    pub(super) backing: Backing,
    pub(super) bytes: u64,
}

/// The loaded files, in the order in which they were used. Who has one open holds it, too.
#[derive(Default)]
pub(super) struct Kept {
    files: HashMap<NodeId, (u64, Arc<Loaded>)>,
    by_use: BTreeMap<u64, NodeId>,
    /// Counts uses.
    clock: u64,
}

impl Kept {
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    pub(super) fn insert(&mut self, node: NodeId, file: Arc<Loaded>) {
        self.clock += 1;
        self.by_use.insert(self.clock, node);
        let before = self.files.insert(node, (self.clock, file));
        debug_assert!(before.is_none(), "a file is loaded once");
    }

    /// The file, which is then the most recently used one.
    pub(super) fn used(&mut self, node: NodeId) -> Option<Arc<Loaded>> {
        let (used, file) = self.files.get_mut(&node)?;
        self.by_use.remove(used);
        self.clock += 1;
        *used = self.clock;
        self.by_use.insert(self.clock, node);
        Some(Arc::clone(file))
    }

    /// The bytes of files that nobody has open.
    pub(super) fn unused_bytes(&self) -> u64 {
        let files = self.files.values().map(|(_, file)| file);
        let unused = files.filter(|file| is_unused(file));
        unused.map(|file| file.bytes).sum()
    }

    /// Takes out files that nobody has open, the least recently used ones first, until they have `bytes`, or all of them.
    pub(super) fn evict(&mut self, bytes: u64) -> Vec<Arc<Loaded>> {
        let mut evicted = Vec::new();
        let mut left = bytes;
        let nodes = self.by_use.values().copied();
        let is_unused = |node: &NodeId| {
            self.files
                .get(node)
                .is_some_and(|(_, file)| is_unused(file))
        };
        let nodes = nodes.filter(is_unused);
        let chosen: Vec<_> = nodes
            .take_while(|node| {
                let wanted = left > 0;
                let file = self.files.get(node);
                left = left.saturating_sub(file.map_or(0, |(_, file)| file.bytes));
                wanted
            })
            .collect();
        for node in chosen {
            if let Some((used, file)) = self.files.remove(&node) {
                self.by_use.remove(&used);
                evicted.push(file);
            }
        }
        evicted
    }
}

/// Whether nobody has a file open.
fn is_unused(file: &Arc<Loaded>) -> bool {
    Arc::strong_count(file) == 1
}
