use std::{ffi::OsStr, ops::ControlFlow, os::unix::ffi::OsStrExt, path::Path};

use verimount_source::Scratch;
use verimount_tree::{
    AddEntry, AddReadable, Attr, Cursor, DirEntry, Error as TreeError, Extent, FilePlace, FileType,
    NodeId, ROOT_PATH, Tree, Usage, VisitPlace, XattrNames, walk_readable,
};
use verimount_verity::Checked;

use crate::{
    Error, Superblock, Unsupported, Work,
    directory::{Directory, Found},
    directory_block::MAX_NAME,
    error::Defect,
    image::Image,
    inode::Inode,
    inode_id::InodeId,
    note::Note,
    places::{Ended, Places, limit},
};

/// The least that an entry takes in a directory, in bytes.
const MIN_ENTRY: u64 = 13;

/// The tree in an image. A file's node id is the offset of its inode in units of 32 bytes, the root's 1; inode numbers are
/// those that the kernel shows.
///
/// Access and change times are not stored, and are those of modification, as in the kernel.
pub struct ErofsTree {
    image: Image,
}

impl ErofsTree {
    /// Opens the image that `source` begins with, which is verified when it is read:
    ///
    /// ```
    /// # use {std::sync::Arc, verimount_erofs::ErofsTree, verimount_source::Fetch, verimount_verity::Checked};
    /// let fetched: Arc<dyn Fetch> = Arc::new(Vec::new());
    /// ErofsTree::open(Checked::unverified(fetched), Vec::new());
    /// ```
    ///
    /// There is no tree of what nobody has checked:
    ///
    /// ```compile_fail
    /// # use {std::sync::Arc, verimount_erofs::ErofsTree, verimount_source::Fetch, verimount_verity::Checked};
    /// let fetched: Arc<dyn Fetch> = Arc::new(Vec::new());
    /// ErofsTree::open(fetched, Vec::new());
    /// ```
    ///
    /// `devices` are the further ones of its device table, in order. If none
    /// are given, their data is looked for in `source`, where the table says.
    ///
    /// # Errors
    /// [`Error::NotErofs`] if `source` has no superblock of EROFS, [`Error::Unsupported`] for other devices than the
    /// table has, and any other [`Error`].
    pub fn open(source: Checked, devices: Vec<Checked>) -> Result<Self, Error> {
        let image = Image::open(source, devices)?;
        Ok(Self { image })
    }

    /// What the image says of itself.
    pub fn superblock(&self) -> &Superblock {
        &self.image.superblock
    }

    /// What reading it has taken so far.
    pub fn work(&self) -> Work {
        self.image.work.stats()
    }

    fn id(&self, node: NodeId) -> InodeId {
        match node {
            NodeId::ROOT => self.image.superblock.root,
            node => InodeId::from_raw(node.get()),
        }
    }

    fn number(&self, id: InodeId) -> Result<NodeId, Error> {
        if id == self.image.superblock.root {
            return Ok(NodeId::ROOT);
        }
        // No inode is where the number would be that of another file: there is the superblock. Nor is one where there would be
        // no number: that is 64 PiB away.
        let number = NodeId::new(id.get()).filter(|number| *number != NodeId::ROOT);
        number.ok_or(Defect::InodeRange.in_image(0).into())
    }

    fn inode(&self, node: NodeId) -> Result<Inode, Error> {
        self.image.inode(self.id(node))
    }

    fn directory(&self, node: NodeId) -> Result<Inode, TreeError> {
        let inode = self.inode(node)?;
        match inode.file_type {
            FileType::Directory => Ok(inode),
            _ => Err(TreeError::NotADirectory),
        }
    }

    /// The inode; an error if it is not a regular file.
    fn file(&self, node: NodeId) -> Result<Inode, TreeError> {
        let inode = self.inode(node)?;
        match inode.file_type {
            FileType::RegularFile => Ok(inode),
            FileType::Directory => Err(TreeError::IsADirectory),
            _ => Err(TreeError::NoContent),
        }
    }

    fn shown(&self, inode: &Inode) -> Result<Attr, TreeError> {
        let ino = self.image.superblock.shown_number(inode.id);
        Ok(inode.attr(self.number(inode.id)?, ino))
    }

    /// The type of a file that a directory tells of.
    fn file_type(&self, found: Found) -> Result<FileType, Error> {
        match found.file_type {
            Some(file_type) => Ok(file_type),
            None => Ok(self.image.inode(found.id)?.file_type),
        }
    }

    /// Gives `visit` the places of a file.
    fn visit_places(
        &self,
        left: &mut u64,
        path: &Path,
        node: NodeId,
        visit: &mut VisitPlace<'_>,
    ) -> ControlFlow<()> {
        let mut places = Places {
            image: &self.image,
            left,
            visit: &mut |range, kind| visit(Ok(FilePlace { path, range, kind })),
        };
        match places.of(self.id(node)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(Ended::ByVisitor) => ControlFlow::Break(()),
            Err(Ended::Failed(error)) => visit(Err(error.into())),
            Err(Ended::ByLimit) => {
                visit(Err(Error::from(Unsupported::Places).into()))?;
                ControlFlow::Break(())
            }
        }
    }

    /// The entry of a file in a listing, and the cursor behind it.
    fn listed<'n>(
        &self,
        name: &'n [u8],
        found: Found,
        next: u64,
    ) -> Result<(DirEntry<'n>, Cursor), Error> {
        let entry = DirEntry {
            name: OsStr::from_bytes(name),
            node: self.number(found.id)?,
            ino: self.image.superblock.shown_number(found.id),
            file_type: self.file_type(found)?,
        };
        let cursor = Cursor::new(next);
        Ok((entry, cursor.ok_or(Defect::Size(next).in_image(0))?))
    }
}

impl Tree for ErofsTree {
    fn attr(&self, node: NodeId) -> Result<Attr, TreeError> {
        let inode = self.inode(node)?;
        self.shown(&inode)
    }

    fn lookup(&self, directory: NodeId, name: &OsStr) -> Result<Attr, TreeError> {
        let inode = self.directory(directory)?;
        let name = name.as_bytes();
        if matches!(name, b"." | b"..") {
            return Err(TreeError::NotFound);
        }
        let found = Directory::new(&self.image, &inode).find(name)?;
        let found = found.ok_or(TreeError::NotFound)?;
        let inode = self.image.inode(found.id)?;
        if found
            .file_type
            .is_some_and(|file_type| file_type != inode.file_type)
        {
            return Err(Error::from(Defect::EntryType.at(inode.xattrs.at)).into());
        }
        self.shown(&inode)
    }

    fn parent(&self, directory: NodeId) -> Result<Attr, TreeError> {
        let inode = self.directory(directory)?;
        let found = Directory::new(&self.image, &inode).find(b"..")?;
        let parent = self.image.inode(found.ok_or(TreeError::NotFound)?.id)?;
        match parent.file_type {
            FileType::Directory => self.shown(&parent),
            _ => Err(Error::from(Defect::EntryType.at(parent.xattrs.at)).into()),
        }
    }

    fn list(
        &self,
        directory: NodeId,
        from: Cursor,
        add: &mut AddEntry<'_>,
    ) -> Result<(), TreeError> {
        let mut failed = None;
        self.list_readable(directory, from, &mut |found| match found {
            Ok((entry, cursor)) => add(entry, cursor),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        failed.map_or(Ok(()), Err)
    }

    fn list_readable(&self, directory: NodeId, from: Cursor, add: &mut AddReadable<'_>) {
        let inode = match self.directory(directory) {
            Ok(inode) => inode,
            Err(error) => {
                // Nothing follows.
                let _ = add(Err(error));
                return;
            }
        };
        let directory = Directory::new(&self.image, &inode);
        directory.list(from.get(), |found| {
            let listed = found.and_then(|(name, found, next)| self.listed(name, found, next));
            add(listed.map_err(TreeError::from))
        });
    }

    fn walk_places(&self, visit: &mut VisitPlace<'_>) -> ControlFlow<()> {
        let mut left = limit(&self.image);
        self.visit_places(&mut left, Path::new(ROOT_PATH), NodeId::ROOT, visit)?;
        walk_readable(self, |found| match found {
            Ok((path, node)) => self.visit_places(&mut left, path, node, visit),
            Err(error) => visit(Err(error)),
        })
    }

    fn read<'s>(
        &self,
        node: NodeId,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], TreeError> {
        let inode = self.file(node)?;
        Ok(self.image.read(&inode, offset, len, scratch)?)
    }

    fn will_need(&self, node: NodeId, offset: u64, len: u64) {
        if let Ok(inode) = self.file(node) {
            self.image.will_need(&inode, offset, len);
        }
    }

    fn will_walk(&self) {
        self.image.will_walk();
    }

    fn readlink<'s>(&self, node: NodeId, scratch: &'s mut Scratch) -> Result<&'s [u8], TreeError> {
        let inode = self.inode(node)?;
        match inode.file_type {
            FileType::Symlink => Ok(self.image.target(&inode, scratch)?),
            _ => Err(TreeError::NotASymlink),
        }
    }

    fn usage(&self) -> Usage {
        let bytes = self.image.devices.size();
        Usage {
            bytes,
            name_max: u32::try_from(MAX_NAME).unwrap_or(u32::MAX),
            max_entries: bytes.checked_div(MIN_ENTRY).unwrap_or_default(),
        }
    }

    fn claimed_id(&self) -> Option<u32> {
        self.image.superblock.claimed_id
    }

    fn shares_data(&self) -> bool {
        true
    }

    fn has_access_lists(&self) -> bool {
        // The format does not tell.
        !self.image.superblock.note.contains(Note::NO_ACCESS_LISTS)
    }

    fn xattr_names(&self, node: NodeId) -> Result<XattrNames, TreeError> {
        self.image.xattr_names(&self.inode(node)?)
    }

    fn xattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, TreeError> {
        let value = self.image.xattr(&self.inode(node)?, name.as_bytes())?;
        value.ok_or(TreeError::NoAttribute)
    }

    fn has_holes(&self) -> bool {
        // Inodes of chunks may have some, with and without the feature that announces chunks.
        true
    }

    fn extent(&self, node: NodeId, offset: u64) -> Result<Extent, TreeError> {
        let inode = self.file(node)?;
        let extent = self.image.extent(&inode, offset)?;
        extent.ok_or(TreeError::PastEnd)
    }
}
