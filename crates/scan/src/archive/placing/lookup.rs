//! Finds what has been placed.

use std::{hash::BuildHasher, ops::Range};

use super::Placing;
use crate::{
    FileData, InodeKind,
    archive::{
        path::names,
        placed::{LayerNumber, NodeId},
    },
    inode::Place,
};

/// A directory of the tree.
#[derive(Clone, Copy)]
pub(super) struct Directory {
    pub(super) node: NodeId,
    /// What layers before this one have in it is deleted.
    pub(super) cleared: LayerNumber,
}

impl Placing<'_> {
    /// The content of the regular file at this path in the archive; of what a symbolic link there leads to, but through no
    /// others. `None` also for a file with holes.
    pub(in crate::archive) fn file(&self, path: &[u8]) -> Option<Range<u64>> {
        let kind = |path: &[u8]| {
            let node = self.find(&names(path).ok()?)?;
            Some(&self.placed.inodes[self.placed.node(node).inode.index()].kind)
        };
        let target;
        let kind = match kind(path)? {
            InodeKind::Symlink(link) => {
                target = beside(path, link)?;
                kind(&target)?
            }
            kind => kind,
        };
        match kind {
            InodeKind::File(FileData {
                place: Place::Archive { at, size },
                stored: None,
            }) => Some(*at..at.checked_add(*size)?),
            _ => None,
        }
    }

    pub(super) fn root(&self) -> Directory {
        Directory {
            node: NodeId::ROOT,
            cleared: self.placed.node(NodeId::ROOT).cleared,
        }
    }

    /// The directory that is this node in another one.
    pub(super) fn inside(&self, directory: Directory, node: NodeId) -> Directory {
        let cleared = self.placed.node(node).cleared;
        Directory {
            node,
            cleared: cleared.max(directory.cleared),
        }
    }

    /// What has a name in a directory and is not deleted.
    pub(super) fn child(&self, directory: Directory, name: &[u8]) -> Option<NodeId> {
        let node = self.node_named(directory.node, name);
        node.filter(|node| self.placed.is_visible(*node, directory.cleared))
    }

    pub(super) fn node_named(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        let hash = self.hasher.hash_one((directory, name));
        let is_it = |node: &NodeId| {
            self.placed.node(*node).parent == directory && self.placed.name(*node) == name
        };
        self.by_name.find(hash, is_it).copied()
    }

    /// What has this path.
    pub(super) fn find(&self, names: &[&[u8]]) -> Option<NodeId> {
        let mut at = self.root();
        for name in names {
            at = self.inside(at, self.child(at, name)?);
        }
        Some(at.node)
    }
}

/// The path of what `target` leads to from a symbolic link at `path`.
fn beside(path: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let mut all: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    all.pop();
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b".." => drop(all.pop()?),
            name => all.push(name),
        }
    }
    Some(all.join(&b'/'))
}
