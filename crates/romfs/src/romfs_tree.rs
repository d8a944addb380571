use std::{ffi::OsStr, ops::ControlFlow, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

use quick_cache::sync::Cache;
use verimount_source::{ReadAt, Scratch};
use verimount_tree::{
    AddEntry, AddEntryAndAttr, Attr, Cursor, DeviceNumber, DirEntry, Error as TreeError, FilePlace,
    FileType, NodeId as TreeNodeId, Ownership, Permissions, PlaceKind, ROOT_PATH, Tree, Usage,
    VisitPlace, part_inside,
};
use verimount_verity::Checked;

use crate::{
    Entries, Error, MAX_NAME_LEN, Node, NodeId, Romfs, directories::Directories,
    geometry::MIN_HEADER_LEN,
};

/// How many bytes of directories are kept: more than a million entries with short names.
const KEPT_BYTES: u64 = 64 << 20;

/// How many file headers are kept.
const NODE_CACHE_ENTRIES: usize = 1 << 16;

/// The tree in an image. A file's number is the offset of its header.
///
/// All that romfs does not know is what Linux shows for it: everything is root's, of 1970, and has
/// one name.
pub struct RomfsTree {
    image: Romfs<Checked>,
    directories: Directories,
    nodes: Cache<NodeId, Node>,
}

impl RomfsTree {
    /// The tree in `image`.
    pub fn new(image: Romfs<Checked>) -> Self {
        Self {
            image,
            directories: Directories::new(KEPT_BYTES),
            nodes: Cache::new(NODE_CACHE_ENTRIES),
        }
    }

    /// Opens the image that `source` begins with, which is verified when it is read:
    ///
    /// ```
    /// # use {std::sync::Arc, verimount_romfs::RomfsTree, verimount_verity::Checked};
    /// let file = Arc::new(Vec::new());
    /// RomfsTree::open(Checked::unverified(file));
    /// ```
    ///
    /// There is no tree of what nobody has checked:
    ///
    /// ```compile_fail
    /// # use {std::sync::Arc, verimount_romfs::RomfsTree, verimount_verity::Checked};
    /// let file = Arc::new(Vec::new());
    /// RomfsTree::open(file);
    /// ```
    ///
    /// # Errors
    /// As [`Romfs::open`].
    pub fn open(source: Checked) -> Result<Self, Error> {
        Ok(Self::new(Romfs::open(source)?))
    }

    /// The header of a file that the tree gave out.
    fn id(&self, node: TreeNodeId) -> Result<NodeId, TreeError> {
        match node {
            TreeNodeId::ROOT => Ok(self.image.root()),
            node => u32::try_from(node.get())
                .ok()
                .and_then(NodeId::from_raw)
                .ok_or(TreeError::NotFound),
        }
    }

    fn node(&self, node: TreeNodeId) -> Result<Node, TreeError> {
        let id = self.id(node)?;
        if let Some(node) = self.nodes.get(&id) {
            return Ok(node);
        }
        let node = self.image.node(id)?;
        self.nodes.insert(id, node);
        Ok(node)
    }

    fn entries(&self, directory: TreeNodeId) -> Result<Arc<Entries>, TreeError> {
        let node = self.node(directory)?;
        match node.file_type {
            FileType::Directory => Ok(self.directories.get(&self.image, node.id)?),
            _ => Err(TreeError::NotADirectory),
        }
    }

    /// Gives a directory's entries from a place on to `visit`, until it wants no more. A place is a
    /// position in the directory.
    fn visit(
        &self,
        directory: TreeNodeId,
        from: Cursor,
        mut visit: impl FnMut(DirEntry<'_>, Cursor, &Node) -> ControlFlow<()>,
    ) -> Result<(), TreeError> {
        let entries = self.entries(directory)?;
        let position = usize::try_from(from.get()).unwrap_or(usize::MAX);
        let places = (from.get()..).skip(1).map_while(Cursor::new);
        for (entry, next) in entries.iter_from(position).zip(places) {
            let name = OsStr::from_bytes(entry.name);
            let node = self.image.number(entry.node.id)?;
            let listed = DirEntry {
                name,
                node,
                ino: node.get(),
                file_type: entry.node.file_type,
            };
            if visit(listed, next, &entry.node).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The attributes of a file that somebody learns of, and so will ask for.
    fn found(&self, node: &Node) -> Result<Attr, TreeError> {
        self.nodes.insert(node.id, *node);
        self.attr_of(node)
    }

    fn attr_of(&self, node: &Node) -> Result<Attr, TreeError> {
        let permissions = Permissions::new(node.permissions().into());
        let number = self.image.number(node.id)?;
        Ok(Attr {
            rdev: DeviceNumber::new(node.device >> 16, node.device & 0xffff),
            ..Attr::new(number, node.file_type, permissions, node.size.into())
        })
    }
}

impl Tree for RomfsTree {
    fn attr(&self, node: TreeNodeId) -> Result<Attr, TreeError> {
        self.attr_of(&self.node(node)?)
    }

    fn lookup(&self, directory: TreeNodeId, name: &OsStr) -> Result<Attr, TreeError> {
        let found = self.entries(directory)?.find(name.as_bytes());
        self.found(&found.ok_or(TreeError::NotFound)?)
    }

    fn parent(&self, directory: TreeNodeId) -> Result<Attr, TreeError> {
        let parent = self.image.parent(self.id(directory)?)?;
        self.found(&parent.ok_or(TreeError::NotFound)?)
    }

    fn list(
        &self,
        directory: TreeNodeId,
        from: Cursor,
        add: &mut AddEntry<'_>,
    ) -> Result<(), TreeError> {
        self.visit(directory, from, |entry, next, _| add(entry, next))
    }

    fn list_with_attrs(
        &self,
        directory: TreeNodeId,
        from: Cursor,
        add: &mut AddEntryAndAttr<'_>,
    ) -> Result<(), TreeError> {
        self.visit(directory, from, |entry, next, node| {
            add(entry, next, self.found(node).ok().as_ref())
        })
    }

    fn read<'s>(
        &self,
        node: TreeNodeId,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], TreeError> {
        let node = self.node(node)?;
        match node.file_type {
            FileType::RegularFile => {}
            FileType::Directory => return Err(TreeError::IsADirectory),
            _ => return Err(TreeError::NoContent),
        }
        let len = part_inside(offset, len, node.size.into()).len();
        if len == 0 {
            return Ok(&[]);
        }
        // Inside the image: the reader has checked that all of the content is.
        let content = node.data_offset..node.data_offset.saturating_add(node.size.into());
        let start = content.start.saturating_add(offset);
        let source = self.image.source();
        source.will_end(content);
        Ok(source.read_borrowed(scratch, start, len)?)
    }

    fn readlink<'s>(
        &self,
        node: TreeNodeId,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], TreeError> {
        let node = self.node(node)?;
        Ok(self.image.symlink_target(&node, scratch)?)
    }

    fn ownership(&self) -> Ownership {
        Ownership::Unknown
    }

    fn walk_places(&self, visit: &mut VisitPlace<'_>) -> ControlFlow<()> {
        let header =
            |id: NodeId| u64::from(id)..u64::from(id).saturating_add(MIN_HEADER_LEN.into());
        visit(Ok(FilePlace {
            path: Path::new(ROOT_PATH),
            range: header(self.image.root()),
            kind: PlaceKind::Metadata,
        }))?;
        self.image.walk_damaged(|found| {
            let (path, node) = match found {
                Ok(found) => found,
                Err(error) => return visit(Err(error)),
            };
            let (kind, range) = match node.file_type {
                // The data is right behind the header and the name.
                FileType::RegularFile | FileType::Symlink => {
                    let end = node.data_offset.saturating_add(node.size.into());
                    (PlaceKind::Content, node.id.into()..end)
                }
                _ => (PlaceKind::Metadata, header(node.id)),
            };
            visit(Ok(FilePlace { path, range, kind }))
        })
    }

    fn usage(&self) -> Usage {
        Usage {
            bytes: self.image.size().into(),
            // Of those names that `build` makes; the kernel's own reader shows no longer ones.
            name_max: u32::try_from(MAX_NAME_LEN).unwrap_or(u32::MAX),
            max_entries: self.image.max_entries(),
        }
    }
}
