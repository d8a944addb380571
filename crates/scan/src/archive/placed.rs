//! What the members of an archive are placed in.

use crate::{Inode, InodeId, InodeKind, SourceTree};

/// All nodes and inodes, and a tree without them.
pub(super) struct Placed {
    pub(super) tree: SourceTree,
    pub(super) nodes: Vec<Node>,
    /// The names of all nodes, back to back.
    names: Vec<u8>,
    /// Until there are entries, those that are not used have no names.
    pub(super) inodes: Vec<Inode>,
}

/// The number of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);

/// A path in the archive.
pub(super) struct Node {
    /// Its directory; the root itself for the root.
    pub(super) parent: NodeId,
    pub(super) inode: InodeId,
    /// Where its name begins, and its length.
    name: usize,
    name_len: u8,
    pub(super) has_children: bool,
    /// It only says that there is nothing of this name in the layers below.
    pub(super) is_whiteout: bool,
    /// A directory that hides those below it.
    pub(super) is_opaque: bool,
    /// The last layer that has it, or something in it.
    pub(super) layer: LayerNumber,
    /// What layers before this one have in it is deleted.
    pub(super) cleared: LayerNumber,
    /// It is deleted itself.
    pub(super) is_deleted: bool,
}

/// The number of a layer, by which the lowest one begins. An archive that is no layer has the first.
pub(super) type LayerNumber = u32;

impl NodeId {
    pub(super) const ROOT: Self = Self(0);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Placed {
    /// Without a root.
    pub(super) fn new(tree: SourceTree) -> Self {
        Self {
            tree,
            nodes: Vec::new(),
            names: Vec::new(),
            inodes: Vec::new(),
        }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The name of a node; empty for the root.
    pub(super) fn name(&self, id: NodeId) -> &[u8] {
        let node = self.node(id);
        &self.names[node.name..][..node.name_len.into()]
    }

    pub(super) fn is_directory(&self, inode: InodeId) -> bool {
        matches!(self.inodes[inode.index()].kind, InodeKind::Directory(_))
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// Whether a node is there, in whose directory everything of layers before `cleared` is deleted.
    pub(super) fn is_visible(&self, id: NodeId, cleared: LayerNumber) -> bool {
        let node = self.node(id);
        !node.is_deleted && node.layer >= cleared
    }

    /// Adds a node; the caller has made sure that there is none of this name.
    pub(super) fn push(
        &mut self,
        parent: NodeId,
        name: &[u8],
        inode: InodeId,
        layer: LayerNumber,
    ) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node {
            parent,
            inode,
            name: self.names.len(),
            // Longer names are no part of paths.
            name_len: name.len() as u8,
            has_children: false,
            is_whiteout: false,
            is_opaque: false,
            layer,
            cleared: 0,
            is_deleted: false,
        });
        self.names.extend_from_slice(name);
        id
    }
}
