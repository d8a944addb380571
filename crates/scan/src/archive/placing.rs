//! Finds the place of each member in the tree.

mod lookup;

use std::{
    ffi::OsStr,
    hash::{BuildHasher, RandomState},
    mem,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use hashbrown::HashTable;
use verimount_tar::{Attributes, Kind, Member};
use verimount_tree::{ACCESS_LIST, AccessList, DeviceNumber, MAX_DEPTH, Permissions, Timestamp};

use self::lookup::Directory;
use super::{
    path::{names, names_below},
    placed::{LayerNumber, NodeId, Placed},
    whiteout::{Meaning, meaning, opaque},
};
use crate::{
    EntryId, Error, FileData, Inode, InodeId, InodeKind, Limit, Loss, Misfit, Options, Owner,
    SourceTree, Whiteouts, Xattr, inode::Place, source_tree::MAX_ENTRIES,
};

/// The attribute by which Linux has access control lists of NFS.
const NFS_LIST: &[u8] = b"system.nfs4_acl";

/// The tree so far, in no order.
pub(super) struct Placing<'o> {
    placed: Placed,
    options: &'o Options,
    /// The nodes by their directories and names.
    by_name: HashTable<NodeId>,
    hasher: RandomState,
    /// The inodes whose names have all been given to others.
    free: Vec<InodeId>,
    /// What the members belong to.
    part: Part,
    /// The path below which they are placed.
    base: Arc<[u8]>,
}

/// What members belong to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Where its archive begins in the file.
    pub(super) at: u64,
    /// The number of a layer of the tree, which deletes what layers below have. An archive that is alone keeps what is deleted
    /// of those below it.
    pub(super) layer: Option<LayerNumber>,
}

impl Part {
    /// An archive that is alone, and begins with this byte of the file.
    pub(super) fn alone(at: u64) -> Self {
        Self { at, layer: None }
    }

    fn number(self) -> LayerNumber {
        self.layer.unwrap_or(0)
    }
}

/// Why a member was refused.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum Refusal {
    Misfit(#[from] Misfit),
    Limit(#[from] Limit),
}

/// The attributes of what is in no archive.
pub(super) fn implied_attributes(permissions: u32) -> Attributes {
    Attributes {
        permissions: Permissions::new(permissions),
        uid: 0,
        gid: 0,
        mtime: Timestamp::EPOCH,
        extended: Vec::new(),
        has_nfs_list: false,
    }
}

impl<'o> Placing<'o> {
    /// Nothing but a root, which no member has described.
    pub(super) fn new(tree: SourceTree, options: &'o Options) -> Result<Self, Error> {
        let mut placing = Self {
            placed: Placed::new(tree),
            options,
            by_name: HashTable::new(),
            hasher: RandomState::new(),
            free: Vec::new(),
            part: Part::alone(0),
            base: Arc::default(),
        };
        let root = placing.implied_directory();
        let root = root.map_err(|refusal| placing.error(refusal, b""))?;
        placing.placed.push(NodeId::ROOT, b"", root, 0);
        Ok(placing)
    }

    /// The members that follow belong to this.
    pub(super) fn begin(&mut self, part: Part) {
        self.part = part;
    }

    /// The members that follow belong to `part`, and their paths begin at `directory`, which is there even if there are
    /// none.
    pub(super) fn begin_below(&mut self, part: Part, directory: &str) -> Result<(), Error> {
        self.begin(part);
        self.base = directory.as_bytes().into();
        let base = self.base.clone();
        let made = names(&base).and_then(|names| self.directory(&names));
        made.map(drop).map_err(|refusal| self.error(refusal, &base))
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
        let base = self.base.clone();
        let names = names_below(&base, path)?;
        let attributes = member.attributes;
        if attributes.has_nfs_list && self.options.attributes.includes(NFS_LIST) {
            let losses = &mut self.placed.tree.losses;
            losses.add(Loss::AccessLists, || self::path(&names), format_args!(""));
        }
        let Some((last, directories)) = names.split_last() else {
            return self.place_root(&member.kind, attributes);
        };
        let choice = match self.part.layer {
            None if self.base.is_empty() => self.options.whiteouts,
            _ => Whiteouts::Overlay,
        };
        let meaning = meaning(&names, choice);
        if meaning == Meaning::Nothing {
            return Ok(());
        }
        let directory = self.directory(directories)?;
        match (meaning, self.part.layer) {
            (Meaning::DeletesAll, None) => {
                self.placed.node_mut(directory.node).is_opaque = true;
            }
            (Meaning::DeletesAll, Some(number)) => {
                self.placed.node_mut(directory.node).cleared = number;
            }
            (Meaning::Deletes(name), None) => {
                self.place_whiteout(directory, name, attributes)?;
            }
            (Meaning::Deletes(name), Some(number)) => {
                self.delete(directory, name, number);
            }
            (Meaning::Itself | Meaning::Nothing, _) => {
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

    /// Deletes what the layers before this one have under a name.
    fn delete(&mut self, directory: Directory, name: &[u8], number: LayerNumber) {
        if let Some(child) = self.child(directory, name) {
            let child = self.placed.node_mut(child);
            child.cleared = number;
            child.is_deleted = child.layer < number;
        }
    }

    /// Something that is deleted of the layers below, unless this layer has it.
    fn place_whiteout(
        &mut self,
        directory: Directory,
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

    /// The directory with these names in its path. Those that are not there become directories; so does what a layer
    /// below has there that is none.
    fn directory(&mut self, names: &[&[u8]]) -> Result<Directory, Refusal> {
        let number = self.part.number();
        let mut directory = self.root();
        for (depth, name) in names.iter().enumerate() {
            let child = self.child(directory, name);
            let child = child.map(|child| (child, self.placed.node(child)));
            let node = match child {
                Some((child, node)) if self.placed.is_directory(node.inode) => {
                    self.placed.node_mut(child).layer = number;
                    child
                }
                Some((_, node)) if !node.is_whiteout && node.layer == number => {
                    return Err(Misfit::NoDirectory(path(&names[..=depth])).into());
                }
                _ => {
                    let inode = self.implied_directory()?;
                    self.put(directory, name, inode)?
                }
            };
            directory = self.inside(directory, node);
        }
        Ok(directory)
    }

    fn implied_directory(&mut self) -> Result<InodeId, Refusal> {
        self.new_inode(InodeKind::Directory(None), implied_attributes(0o755))
    }

    /// Gives a name in a directory to an inode, whatever has had it before.
    fn put(
        &mut self,
        directory: Directory,
        name: &[u8],
        inode: InodeId,
    ) -> Result<NodeId, Refusal> {
        if let Some(node) = self.node_named(directory.node, name) {
            self.put_again(directory, node, inode)?;
            return Ok(node);
        }
        if self.placed.nodes.len() == MAX_ENTRIES {
            return Err(Limit::Entries.into());
        }
        self.placed.inodes[inode.index()].names += 1;
        self.placed.node_mut(directory.node).has_children = true;
        let number = self.part.number();
        let node = self.placed.push(directory.node, name, inode, number);
        let (placed, hasher) = (&self.placed, &self.hasher);
        let hash = |node: &NodeId| hasher.hash_one((placed.node(*node).parent, placed.name(*node)));
        self.by_name.insert_unique(hash(&node), node, hash);
        Ok(node)
    }

    /// Gives a node that has been placed before to an inode.
    fn put_again(
        &mut self,
        directory: Directory,
        node: NodeId,
        inode: InodeId,
    ) -> Result<(), Refusal> {
        let number = self.part.number();
        let is_visible = self.placed.is_visible(node, directory.cleared);
        let is_directory = self.placed.is_directory(inode);
        let there = self.placed.node_mut(node);
        if there.layer < number {
            // Only directories have what layers below have in them, too.
            if !is_visible || !is_directory {
                there.cleared = number;
                there.has_children = false;
            }
        } else if there.has_children && !is_directory {
            return Err(Misfit::Directory.into());
        }
        // Nothing of this name is in the layers below, so nothing below a directory of this name, either.
        there.is_opaque = is_directory && (there.is_opaque || there.is_whiteout);
        there.is_whiteout = false;
        there.is_deleted = false;
        there.layer = number;
        self.replace(node, inode);
        Ok(())
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

    /// The inode that a member is a name of.
    fn inode(&mut self, kind: Kind, attributes: Attributes) -> Result<InodeId, Refusal> {
        let kind = match kind {
            Kind::HardLink(target) => return self.target(&target),
            Kind::Directory => InodeKind::Directory(None),
            Kind::File(content) => InodeKind::File(FileData {
                place: Place::Archive {
                    // The end of the file was not beyond the numbers.
                    at: self.part.at + content.at,
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

    /// What has this path, and may have further names. It must be in the same layer, as each is unpacked by itself.
    fn target(&self, target: &[u8]) -> Result<InodeId, Refusal> {
        let base = self.base.clone();
        let names = names_below(&base, target)?;
        let node = self.find(&names).map(|node| self.placed.node(node));
        let node = node.filter(|node| node.layer == self.part.number() && !node.is_whiteout);
        match node.filter(|node| !self.placed.is_directory(node.inode)) {
            Some(node) => Ok(node.inode),
            None => Err(Misfit::Target(path(&names)).into()),
        }
    }

    fn new_inode(&mut self, kind: InodeKind, attributes: Attributes) -> Result<InodeId, Refusal> {
        let permissions = self.permissions(&attributes);
        let extended = attributes.extended.into_iter();
        let chosen = extended.filter(|it| self.options.attributes.includes(&it.name));
        let extended = self.placed.tree.xattrs.intern(chosen.collect());
        let own = Owner {
            uid: attributes.uid,
            gid: attributes.gid,
        };
        let inode = Inode {
            kind,
            permissions,
            owner: self.options.owner.unwrap_or(own),
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

    /// The permissions of a member: if its access control list is not chosen, those that it has without.
    fn permissions(&self, of: &Attributes) -> Permissions {
        let is_list = |it: &&Xattr| *it.name == *ACCESS_LIST.as_bytes();
        let list = of.extended.iter().find(is_list);
        match list.filter(|list| !self.options.attributes.includes(&list.name)) {
            Some(list) => AccessList::removed_from(of.permissions, &list.value),
            None => of.permissions,
        }
    }

    /// Makes a directory hide those below it.
    fn hide_others(&mut self, directory: InodeId) -> Result<(), Limit> {
        let tree = &mut self.placed.tree;
        let inode = &mut self.placed.inodes[directory.index()];
        let opaque = opaque();
        let others = tree.xattrs().set(inode.attributes).map(|(_, xattr)| xattr);
        let is_other = |xattr: &&Xattr| opaque.iter().all(|own| own.name != xattr.name);
        let mut all: Vec<_> = others.filter(is_other).cloned().collect();
        all.extend(opaque);
        let all = tree.xattrs.intern(all);
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
