//! Finds the place of each member in the tree.

use std::{
    ffi::OsStr,
    hash::{BuildHasher, RandomState},
    mem,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hashbrown::HashTable;
use verimount_tar::{Attribute, Kind, Member};
use verimount_tree::{DeviceNumber, MAX_DEPTH, Permissions, Timestamp};

use super::{
    path::names,
    whiteout::{Meaning, meaning, opaque},
};
use crate::{
    EntryId, Error, FileData, Inode, InodeId, InodeKind, Limit, Misfit, Options, Owner, SourceTree,
    Xattr, inode::Place, source_tree::MAX_ENTRIES,
};

/// The tree so far, in no order.
pub(super) struct Placing<'o> {
    placed: Placed,
    options: &'o Options,
    /// The nodes by their directories and names.
    by_name: HashTable<NodeId>,
    hasher: RandomState,
    /// The inodes whose names have all been given to others.
    free: Vec<InodeId>,
}

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
    has_children: bool,
    /// It only says that there is nothing of this name in the layers below.
    is_whiteout: bool,
    /// A directory that hides those below it.
    is_opaque: bool,
}

/// Why a member was refused.
pub(super) enum Refusal {
    Misfit(Misfit),
    Limit(Limit),
}

impl From<Misfit> for Refusal {
    fn from(misfit: Misfit) -> Self {
        Self::Misfit(misfit)
    }
}

impl From<Limit> for Refusal {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

/// What a member has besides its kind.
struct Attributes {
    permissions: Permissions,
    uid: u32,
    gid: u32,
    mtime: Timestamp,
    extended: Vec<Attribute>,
}

impl Attributes {
    /// Those of a directory that is not a member.
    fn implied() -> Self {
        Self {
            permissions: Permissions::new(0o755),
            uid: 0,
            gid: 0,
            mtime: Timestamp::EPOCH,
            extended: Vec::new(),
        }
    }
}

impl NodeId {
    pub(super) const ROOT: Self = Self(0);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Placed {
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

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// Adds a node; the caller has made sure that there is none of this name.
    fn push(&mut self, parent: NodeId, name: &[u8], inode: InodeId) -> NodeId {
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
        });
        self.names.extend_from_slice(name);
        id
    }
}

impl<'o> Placing<'o> {
    /// Nothing but a root, which no member has described.
    pub(super) fn new(tree: SourceTree, options: &'o Options) -> Result<Self, Error> {
        let mut placing = Self {
            placed: Placed {
                tree,
                nodes: Vec::new(),
                names: Vec::new(),
                inodes: Vec::new(),
            },
            options,
            by_name: HashTable::new(),
            hasher: RandomState::new(),
            free: Vec::new(),
        };
        let root = placing.implied_directory();
        let root = root.map_err(|refusal| placing.error(refusal, b""))?;
        placing.placed.push(NodeId::ROOT, b"", root);
        Ok(placing)
    }

    /// Gives a member its place.
    pub(super) fn place(&mut self, mut member: Member) -> Result<(), Error> {
        let name = mem::take(&mut member.name);
        let placed = self.place_at(&name, member);
        placed.map_err(|refusal| self.error(refusal, &name))
    }

    /// All that has been placed.
    pub(super) fn finish(mut self) -> Result<Placed, Error> {
        for number in 0..self.placed.nodes.len() {
            if self.placed.nodes[number].is_opaque {
                let inode = self.placed.nodes[number].inode;
                let hidden = self.hide_others(inode);
                hidden.map_err(|limit| self.error(limit.into(), b""))?;
            }
        }
        Ok(self.placed)
    }

    fn place_at(&mut self, path: &[u8], member: Member) -> Result<(), Refusal> {
        let names = names(path)?;
        let attributes = Attributes {
            permissions: member.permissions,
            uid: member.uid,
            gid: member.gid,
            mtime: member.mtime,
            extended: member.attributes,
        };
        let Some((last, directories)) = names.split_last() else {
            return self.place_root(&member.kind, attributes);
        };
        let meaning = meaning(&names, self.options.whiteouts);
        if meaning == Meaning::Nothing {
            return Ok(());
        }
        let directory = self.directory(directories)?;
        match meaning {
            Meaning::DeletesAll => self.placed.node_mut(directory).is_opaque = true,
            Meaning::Deletes(name) => self.place_whiteout(directory, name, attributes)?,
            Meaning::Itself | Meaning::Nothing => {
                if member.kind == Kind::Directory && names.len() == MAX_DEPTH {
                    return Err(Limit::Depth.into());
                }
                let inode = self.inode(member.kind, attributes)?;
                self.put(directory, last, inode)?;
            }
        }
        Ok(())
    }

    fn place_root(&mut self, kind: &Kind, attributes: Attributes) -> Result<(), Refusal> {
        if *kind != Kind::Directory {
            return Err(Misfit::Root.into());
        }
        let inode = self.new_inode(InodeKind::Directory(None), attributes)?;
        self.replace(NodeId::ROOT, inode);
        Ok(())
    }

    /// Something that is deleted of the layers below, unless this layer has it.
    fn place_whiteout(
        &mut self,
        directory: NodeId,
        name: &[u8],
        attributes: Attributes,
    ) -> Result<(), Refusal> {
        match self.child(directory, name) {
            Some(child) => {
                let inode = self.placed.node(child).inode;
                if self.placed.is_directory(inode) {
                    self.placed.node_mut(child).is_opaque = true;
                }
            }
            None => {
                let attributes = Attributes {
                    extended: Vec::new(),
                    ..attributes
                };
                let kind = InodeKind::CharDevice(DeviceNumber::NONE);
                let inode = self.new_inode(kind, attributes)?;
                let whiteout = self.put(directory, name, inode)?;
                self.placed.node_mut(whiteout).is_whiteout = true;
            }
        }
        Ok(())
    }

    /// The directory with these names in its path. Those that are not there become directories.
    fn directory(&mut self, names: &[&[u8]]) -> Result<NodeId, Refusal> {
        let mut directory = NodeId::ROOT;
        for (depth, name) in names.iter().enumerate() {
            let child = self.child(directory, name);
            let child = child.filter(|child| !self.placed.node(*child).is_whiteout);
            directory = match child {
                Some(child) if self.placed.is_directory(self.placed.node(child).inode) => child,
                Some(_) => return Err(Misfit::NoDirectory(path(&names[..=depth])).into()),
                None => {
                    let inode = self.implied_directory()?;
                    self.put(directory, name, inode)?
                }
            };
        }
        Ok(directory)
    }

    fn implied_directory(&mut self) -> Result<InodeId, Refusal> {
        self.new_inode(InodeKind::Directory(None), Attributes::implied())
    }

    /// Gives a name in a directory to an inode, whatever has had it before.
    fn put(&mut self, directory: NodeId, name: &[u8], inode: InodeId) -> Result<NodeId, Refusal> {
        if let Some(node) = self.child(directory, name) {
            let is_directory = self.placed.is_directory(inode);
            let there = self.placed.node_mut(node);
            if there.has_children && !is_directory {
                return Err(Misfit::Directory.into());
            }
            // Nothing of this name is in the layers below, so nothing below a directory of this name, either.
            there.is_opaque = is_directory && (there.is_opaque || there.is_whiteout);
            there.is_whiteout = false;
            self.replace(node, inode);
            return Ok(node);
        }
        if self.placed.nodes.len() == MAX_ENTRIES {
            return Err(Limit::Entries.into());
        }
        self.placed.inodes[inode.index()].names += 1;
        self.placed.node_mut(directory).has_children = true;
        let node = self.placed.push(directory, name, inode);
        let (placed, hasher) = (&self.placed, &self.hasher);
        let hash = |node: &NodeId| hasher.hash_one((placed.node(*node).parent, placed.name(*node)));
        self.by_name.insert_unique(hash(&node), node, hash);
        Ok(node)
    }

    /// Gives a node another inode.
    fn replace(&mut self, node: NodeId, inode: InodeId) {
        let inodes = &mut self.placed.inodes;
        inodes[inode.index()].names += 1;
        let old = mem::replace(&mut self.placed.nodes[node.index()].inode, inode);
        let names = &mut inodes[old.index()].names;
        *names = names.saturating_sub(1);
        if *names == 0 {
            self.free.push(old);
        }
    }

    fn child(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        let hash = self.hasher.hash_one((directory, name));
        let is_it = |node: &NodeId| {
            self.placed.node(*node).parent == directory && self.placed.name(*node) == name
        };
        self.by_name.find(hash, is_it).copied()
    }

    /// The inode that a member is a name of.
    fn inode(&mut self, kind: Kind, attributes: Attributes) -> Result<InodeId, Refusal> {
        let kind = match kind {
            Kind::HardLink(target) => return self.target(&target),
            Kind::Directory => InodeKind::Directory(None),
            Kind::File(content) => InodeKind::File(FileData {
                place: Place::Archive {
                    at: content.at,
                    size: content.size,
                },
                stored: content.stored,
            }),
            Kind::Symlink(target) => InodeKind::Symlink(target.into()),
            Kind::BlockDevice(device) => InodeKind::BlockDevice(device),
            Kind::CharDevice(device) => InodeKind::CharDevice(device),
            Kind::Fifo => InodeKind::Fifo,
        };
        self.new_inode(kind, attributes)
    }

    /// What has this path, and may have further names.
    fn target(&self, target: &[u8]) -> Result<InodeId, Refusal> {
        let names = names(target)?;
        let mut at = Some(NodeId::ROOT);
        for name in &names {
            at = at.and_then(|directory| self.child(directory, name));
        }
        let node = at.map(|node| self.placed.node(node));
        match node.filter(|node| !node.is_whiteout && !self.placed.is_directory(node.inode)) {
            Some(node) => Ok(node.inode),
            None => Err(Misfit::Target(path(&names)).into()),
        }
    }

    fn new_inode(&mut self, kind: InodeKind, attributes: Attributes) -> Result<InodeId, Refusal> {
        let extended = attributes.extended.into_iter();
        let chosen = extended.filter(|it| self.options.attributes.includes(&it.name));
        let chosen = chosen.map(|Attribute { name, value }| Xattr { name, value });
        let extended = self.placed.tree.attributes_mut().intern(chosen.collect());
        let own = Owner {
            uid: attributes.uid,
            gid: attributes.gid,
        };
        let Owner { uid, gid } = self.options.owner.unwrap_or(own);
        let inode = Inode {
            kind,
            permissions: attributes.permissions,
            uid,
            gid,
            mtime: self.options.times.apply(attributes.mtime),
            attributes: extended.map_err(|_| Limit::Attributes)?,
            names: 0,
            first_name: EntryId::ROOT,
        };
        let inodes = &mut self.placed.inodes;
        Ok(match self.free.pop() {
            Some(id) => {
                inodes[id.index()] = inode;
                id
            }
            None => {
                inodes.push(inode);
                // There is at most one more than there are nodes.
                InodeId(inodes.len() as u32 - 1)
            }
        })
    }

    /// Makes a directory hide those below it.
    fn hide_others(&mut self, directory: InodeId) -> Result<(), Limit> {
        let tree = &mut self.placed.tree;
        let inode = &mut self.placed.inodes[directory.index()];
        let opaque = opaque();
        let others = tree.attributes(inode.attributes).map(|(_, xattr)| xattr);
        let is_other = |xattr: &&Xattr| opaque.iter().all(|own| own.name != xattr.name);
        let mut all: Vec<_> = others.filter(is_other).cloned().collect();
        all.extend(opaque);
        let all = tree.attributes_mut().intern(all);
        inode.attributes = all.map_err(|_| Limit::Attributes)?;
        Ok(())
    }

    /// The error for a member with this path.
    fn error(&self, refusal: Refusal, path: &[u8]) -> Error {
        // A path that begins with a slash would replace that of the archive.
        let slashes = path.iter().take_while(|byte| **byte == b'/').count();
        let path = self
            .placed
            .tree
            .path()
            .join(OsStr::from_bytes(&path[slashes..]));
        match refusal {
            Refusal::Misfit(misfit) => Error::Member { path, misfit },
            Refusal::Limit(limit) => Error::TooLarge { path, limit },
        }
    }
}

/// A path of these names.
fn path(names: &[&[u8]]) -> PathBuf {
    let names = names.iter().map(|name| Path::new(OsStr::from_bytes(name)));
    names.collect()
}
