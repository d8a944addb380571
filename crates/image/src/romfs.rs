use std::{ffi::OsString, os::unix::ffi::OsStringExt, sync::Arc};

use quick_cache::{Weighter, sync::Cache};
use verimount_romfs::{MAX_NAME_LEN, Node, NodeId, NodeKind, Romfs};
use verimount_source::{ReadAt, Scratch};

use crate::{Attr, Directory, Entry, Error, Inode, Tree, Usage, tree::clamp};

/// How many bytes of directories are kept.
const DIRECTORY_CACHE_BYTES: u64 = 8 << 20;

/// How many file headers are kept.
const NODE_CACHE_ENTRIES: usize = 1 << 16;

/// The tree in a romfs image. An inode's number is the offset of its header.
pub struct RomfsTree {
    image: Romfs<Arc<dyn ReadAt>>,
    directories: Cache<Inode, Arc<Directory>, ByMemory>,
    nodes: Cache<Inode, Node>,
}

#[derive(Clone)]
struct ByMemory;

impl Weighter<Inode, Arc<Directory>> for ByMemory {
    fn weight(&self, _: &Inode, directory: &Arc<Directory>) -> u64 {
        directory.memory()
    }
}

impl RomfsTree {
    /// Opens the image in `source`.
    ///
    /// # Errors
    /// [`Error::Image`] if it is no romfs image.
    pub fn open(source: Arc<dyn ReadAt>) -> Result<Self, Error> {
        // An average directory, for the cache to guess how many there may be.
        const DIRECTORY_BYTES: u64 = 2048;
        Ok(Self {
            image: Romfs::open(source)?,
            directories: Cache::with_weighter(
                (DIRECTORY_CACHE_BYTES / DIRECTORY_BYTES) as usize,
                DIRECTORY_CACHE_BYTES,
                ByMemory,
            ),
            nodes: Cache::new(NODE_CACHE_ENTRIES),
        })
    }

    /// The image.
    pub fn image(&self) -> &Romfs<Arc<dyn ReadAt>> {
        &self.image
    }

    fn node(&self, inode: Inode) -> Result<Node, Error> {
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

    fn directory(&self, inode: Inode) -> Result<Arc<Directory>, Error> {
        if let Some(directory) = self.directories.get(&inode) {
            return Ok(directory);
        }
        let id = self.id(inode)?;
        if self.node(inode)?.kind != NodeKind::Directory {
            return Err(Error::NotADirectory);
        }
        let entries = self.image.entries(id)?.into_iter().map(|entry| {
            let attr = self.attr_of(&entry.node);
            self.nodes.insert(attr.inode, entry.node);
            let name = OsString::from_vec(entry.name.into_vec()).into_boxed_os_str();
            Entry { name, attr }
        });
        let directory = Arc::new(Directory::new(entries.collect()));
        self.directories.insert(inode, directory.clone());
        Ok(directory)
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
            NodeKind::File | NodeKind::Symlink => {}
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

    fn usage(&self) -> Usage {
        Usage {
            bytes: self.image.size().into(),
            name_max: MAX_NAME_LEN as u32,
        }
    }
}
