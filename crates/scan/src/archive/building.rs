//! Brings what has been placed into walk order.

use std::ops::Range;

use super::placed::{LayerNumber, NodeId, Placed};
use crate::{EntryId, InodeId, Options, SourceTree};

/// The number of an inode without a name in the tree.
const UNNAMED: u32 = u32::MAX;

/// A directory while what is in it is added.
struct Level {
    directory: EntryId,
    /// Where its children are in the order.
    children: Range<usize>,
    /// What layers before this one have in it is deleted.
    cleared: LayerNumber,
}

/// The tree in walk order, without what is deleted or excluded.
pub(super) fn build(mut placed: Placed, options: &Options) -> SourceTree {
    let order = order(&placed);
    let mut numbers = Numbers::new(placed.inodes.len());
    let root = add(&mut placed, &mut numbers, NodeId::ROOT, EntryId::ROOT);
    let level = |placed: &Placed, node, directory, cleared: LayerNumber| Level {
        directory,
        children: children(placed, &order, node),
        cleared: placed.node(node).cleared.max(cleared),
    };
    let mut levels = vec![level(&placed, NodeId::ROOT, root, 0)];
    while let Some(at) = levels.last_mut() {
        let (directory, cleared) = (at.directory, at.cleared);
        let Some(next) = at.children.next() else {
            placed.tree.close(directory);
            levels.pop();
            continue;
        };
        let node = order[next];
        let entry = placed.tree.entry(directory);
        if !placed.is_visible(node, cleared) || options.exclude.match_name(entry, placed.name(node))
        {
            continue;
        }
        let entry = add(&mut placed, &mut numbers, node, directory);
        if placed.is_directory(placed.node(node).inode) {
            levels.push(level(&placed, node, entry, cleared));
        }
    }
    let Placed {
        mut tree, inodes, ..
    } = placed;
    tree.complete(numbers.arrange(inodes));
    tree
}

/// All nodes but the root, by their directories and the bytes of their names.
fn order(placed: &Placed) -> Vec<NodeId> {
    let nodes = 1..placed.nodes.len() as u32;
    let mut order: Vec<_> = nodes.map(NodeId).collect();
    let key = |node: &NodeId| (placed.node(*node).parent, placed.name(*node));
    // Most archives have them in an order that is not far from this one.
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    order
}

/// Where the entries of a directory are in the order.
fn children(placed: &Placed, order: &[NodeId], directory: NodeId) -> Range<usize> {
    let parent = |node: &NodeId| placed.node(*node).parent;
    let start = order.partition_point(|node| parent(node) < directory);
    let end = order.partition_point(|node| parent(node) <= directory);
    start..end
}

/// Adds the entry of a node.
fn add(placed: &mut Placed, numbers: &mut Numbers, node: NodeId, directory: EntryId) -> EntryId {
    let inode = numbers.of(placed.node(node).inode);
    let name = placed.name(node).to_vec();
    placed.tree.push_record(&name, directory, inode)
}

/// The numbers of inodes by their first names in walk order.
struct Numbers {
    new: Vec<u32>,
    next: u32,
}

impl Numbers {
    fn new(count: usize) -> Self {
        Self {
            new: vec![UNNAMED; count],
            next: 0,
        }
    }

    /// The number of an inode, which is the next one if it has none.
    fn of(&mut self, old: InodeId) -> InodeId {
        let number = &mut self.new[old.index()];
        if *number == UNNAMED {
            *number = self.next;
            self.next += 1;
        }
        InodeId(*number)
    }

    /// Brings the inodes into the order of their numbers, where they are. Those without a name are left out.
    fn arrange<T>(mut self, mut inodes: Vec<T>) -> Vec<T> {
        let named = self.next as usize;
        for number in &mut self.new {
            if *number == UNNAMED {
                *number = self.next;
                self.next += 1;
            }
        }
        for at in 0..inodes.len() {
            while self.new[at] as usize != at {
                let to = self.new[at] as usize;
                inodes.swap(at, to);
                self.new.swap(at, to);
            }
        }
        inodes.truncate(named);
        inodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_moved_to_their_numbers() {
        let mut numbers = Numbers::new(5);
        for old in [3, 0, 3, 4] {
            numbers.of(InodeId(old));
        }
        let values = vec!["b", "unnamed", "unnamed", "a", "c"];
        assert_eq!(numbers.arrange(values), ["a", "b", "c"]);
    }
}
