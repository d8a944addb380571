use std::{ffi::OsStr, ops::ControlFlow, os::unix::ffi::OsStrExt, sync::Arc};

use quick_cache::sync::Cache;
use verimount_romfs::{Entries, MAX_NAME_LEN, Node, NodeId, NodeKind, Romfs};
use verimount_source::{ReadAt, Scratch};

use crate::{Attr, Error, Inode, Tree, Usage, directories::Directories, tree::clamp};

/// How many bytes of directories are kept: more than a million entries with short names.
const KEPT_BYTES: usize = 64 << 20;

/// How many file headers are kept.
const NODE_CACHE_ENTRIES: usize = 1 << 16;

/// The tree in a romfs image. An inode's number is the offset of its header.
pub struct RomfsTree {
    image: Romfs<Arc<dyn ReadAt>>,
    directories: Directories,
    nodes: Cache<Inode, Node>,
}

impl RomfsTree {
    /// Opens the image in `source`.
    ///
    /// # Errors
    /// [`Error::Image`] if it is no romfs image.
    pub fn open(source: Arc<dyn ReadAt>) -> Result<Self, Error> {
        Ok(Self {
            image: Romfs::open(source)?,
            directories: Directories::new(KEPT_BYTES),
            nodes: Cache::new(NODE_CACHE_ENTRIES),
        })
    }

    /// The image.
    pub fn image(&self) -> &Romfs<Arc<dyn ReadAt>> {
        &self.image
    }

    /// What the image says of an inode.
    ///
    /// # Errors
    /// Any [`Error`].
    pub fn node(&self, inode: Inode) -> Result<Node, Error> {
        if let Some(node) = self.nodes.get(&inode) {
            return Ok(node);
        }
        let node = self.image.node(self.id(inode)?)?;
        self.nodes.insert(inode, node);
        Ok(node)
    }

    fn id(&self, inode: Inode) -> Result<NodeId, Error> {
        match inode {
            Inode::ROOT => Ok(self.image.root()),
            Inode(offset) => u32::try_from(offset)
                .ok()
                .and_then(NodeId::from_raw)
                .ok_or(Error::NotFound),
        }
    }

    fn inode(&self, id: NodeId) -> Inode {
        match id == self.image.root() {
            true => Inode::ROOT,
            false => Inode(id.get().into()),
        }
    }

    fn entries(&self, directory: Inode) -> Result<Arc<Entries>, Error> {
        if self.node(directory)?.kind != NodeKind::Directory {
            return Err(Error::NotADirectory);
        }
        Ok(self.directories.get(&self.image, self.id(directory)?)?)
    }

    /// The attributes of a node that somebody learns of, and so will ask for.
    fn found(&self, node: &Node) -> Attr {
        let attr = self.attr_of(node);
        self.nodes.insert(attr.inode, *node);
        attr
    }

    fn attr_of(&self, node: &Node) -> Attr {
        Attr {
            inode: self.inode(node.id),
            kind: node.kind,
            permissions: node.permissions(),
            size: node.size.into(),
        }
    }
}

impl Tree for RomfsTree {
    fn attr(&self, inode: Inode) -> Result<Attr, Error> {
        Ok(self.attr_of(&self.node(inode)?))
    }

    fn list(
        &self,
        directory: Inode,
        position: u64,
        add: &mut dyn FnMut(&OsStr, &Attr) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let entries = self.entries(directory)?;
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        for entry in entries.iter_from(position) {
            let name = OsStr::from_bytes(entry.name);
            if add(name, &self.found(&entry.node)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn lookup(&self, directory: Inode, name: &OsStr) -> Result<Attr, Error> {
        let found = self.entries(directory)?.find(name.as_bytes());
        Ok(self.found(&found.ok_or(Error::NotFound)?))
    }

    fn read<'s>(
        &self,
        inode: Inode,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        let node = self.node(inode)?;
        match node.kind {
            NodeKind::File => {}
            NodeKind::Directory => return Err(Error::IsADirectory),
            _ => return Err(Error::NoContent),
        }
        let len = clamp(offset, len, node.size.into());
        if len == 0 {
            return Ok(&[]);
        }
        // Inside the image: the reader has checked that all of the content is.
        let start = node.data_offset + offset;
        Ok(self.image.source().read_borrowed(scratch, start, len)?)
    }

    fn readlink<'s>(&self, inode: Inode, scratch: &'s mut Scratch) -> Result<&'s [u8], Error> {
        let node = self.node(inode)?;
        match node.kind {
            NodeKind::Symlink => Ok(self.image.symlink_target(&node, scratch)?),
            _ => Err(Error::NotASymlink),
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            bytes: self.image.size().into(),
            name_max: MAX_NAME_LEN as u32,
        }
    }
}
