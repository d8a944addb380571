use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use verimount_tree::NodeId;

/// The loaded files, in the order in which they were used. Who has one open holds its `F`, too.
pub(super) struct Kept<F> {
    files: HashMap<NodeId, File<F>>,
    by_use: BTreeMap<u64, NodeId>,
    /// Counts uses.
    clock: u64,
}

struct File<F> {
    /// When it was used.
    used: u64,
    held: Arc<F>,
    /// The memory that it takes, in bytes.
    bytes: u64,
}

impl<F> Default for Kept<F> {
    fn default() -> Self {
        Self {
            files: HashMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
        }
    }
}

impl<F> Kept<F> {
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Adds a file that takes this many bytes of memory.
    pub(super) fn insert(&mut self, node: NodeId, held: Arc<F>, bytes: u64) {
        self.clock += 1;
        self.by_use.insert(self.clock, node);
        let used = self.clock;
        let before = self.files.insert(node, File { used, held, bytes });
        debug_assert!(before.is_none(), "a file is loaded once");
    }

    /// The file, which is then the most recently used one.
    pub(super) fn used(&mut self, node: NodeId) -> Option<Arc<F>> {
        let file = self.files.get_mut(&node)?;
        self.by_use.remove(&file.used);
        self.clock += 1;
        file.used = self.clock;
        self.by_use.insert(self.clock, node);
        Some(Arc::clone(&file.held))
    }

    /// The memory of files that nobody has open, in bytes.
    pub(super) fn unused_bytes(&self) -> u64 {
        let unused = self.files.values().filter(|file| file.is_unused());
        unused.map(|file| file.bytes).sum()
    }

    /// Takes out files that nobody has open, the least recently used ones first, until they have `bytes`, or all of them.
    pub(super) fn evict(&mut self, bytes: u64) -> Vec<Arc<F>> {
        let mut left = bytes;
        let mut chosen = Vec::new();
        for (used, node) in &self.by_use {
            if left == 0 {
                break;
            }
            if let Some(file) = self.files.get(node).filter(|file| file.is_unused()) {
                left = left.saturating_sub(file.bytes);
                chosen.push((*used, *node));
            }
        }
        let evicted = chosen.into_iter().filter_map(|(used, node)| {
            self.by_use.remove(&used);
            self.files.remove(&node)
        });
        evicted.map(|file| file.held).collect()
    }
}

impl<F> File<F> {
    /// Whether nobody has it open.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.held) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u64) -> NodeId {
        NodeId::new(number).unwrap()
    }

    /// Files 1 to 4 with their numbers as bytes, used in this order.
    fn kept() -> Kept<u64> {
        let mut kept = Kept::default();
        for number in 1..=4 {
            kept.insert(node(number), Arc::new(number), number);
        }
        kept
    }

    fn evicted(kept: &mut Kept<u64>, bytes: u64) -> Vec<u64> {
        let evicted = kept.evict(bytes);
        evicted.iter().map(|file| **file).collect()
    }

    #[test]
    fn what_was_used_last_is_kept_longest() {
        let mut kept = kept();
        assert_eq!(kept.used(node(1)).as_deref(), Some(&1));
        assert!(evicted(&mut kept, 0).is_empty());
        assert_eq!(evicted(&mut kept, 3), [2, 3]);
        assert!(kept.used(node(2)).is_none());
        assert_eq!((kept.len(), kept.unused_bytes()), (2, 5));
        assert_eq!(evicted(&mut kept, 100), [4, 1]);
        assert_eq!((kept.len(), kept.unused_bytes()), (0, 0));
    }

    #[test]
    fn what_is_open_stays() {
        let mut kept = kept();
        let open = kept.used(node(2));
        assert_eq!(kept.unused_bytes(), 8);
        assert_eq!(evicted(&mut kept, 100), [1, 3, 4]);
        drop(open);
        assert_eq!(evicted(&mut kept, 1), [2]);
    }
}
