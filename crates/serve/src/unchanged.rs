use quick_cache::sync::Cache;
use verimount_bridge::{Attr, NodeId, Timestamp};

/// How many files are remembered. What has been forgotten counts as changed.
const MAX_FILES: usize = 1 << 16;

/// What files looked like when they were opened last, to tell whether their content may have
/// changed since.
pub(crate) struct LastSeen(Cache<NodeId, Stamp>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: Timestamp,
    changed: Timestamp,
}

impl Default for LastSeen {
    fn default() -> Self {
        Self(Cache::new(MAX_FILES))
    }
}

impl LastSeen {
    /// Whether a file looks as it did at the last call.
    pub(crate) fn is_unchanged(&self, node: NodeId, attr: &Attr) -> bool {
        let stamp = Stamp {
            size: attr.size,
            modified: attr.modified,
            changed: attr.changed,
        };
        let before = self.0.get(&node);
        if before != Some(stamp) {
            self.0.insert(node, stamp);
        }
        before == Some(stamp)
    }
}
