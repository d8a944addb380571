use std::collections::HashSet;

use verimount_source::{ReadAt, Scratch};
use verimount_tree::{FileType, NodeId as TreeNodeId};

use crate::{
    Entries, Error, Limit, Node, NodeId,
    error::Defect,
    geometry::{ALIGNMENT, MAX_HEADER_LEN, MIN_HEADER_LEN, to_usize},
    header::Header,
    header_window::HeaderWindow,
    index::Index,
    superblock::Superblock,
};

/// The maximum number of entries in a directory: with the longest names, they take 155 MB of
/// memory.
pub(crate) const MAX_DIRECTORY_ENTRIES: usize = 1 << 20;

/// The maximum number of headers in a directory's chain that are not entries: `.` and `..`.
const MAX_ANCESTORS: usize = 2;

/// A romfs image.
///
/// Opening an image reads only its superblock; headers are read and checked when they are needed.
#[derive(Debug)]
pub struct Romfs<S> {
    pub(crate) source: S,
    pub(crate) superblock: Superblock,
    pub(crate) index: Option<Index>,
}

impl<S: ReadAt> Romfs<S> {
    /// Opens the image at the beginning of `source`.
    ///
    /// # Errors
    /// [`Error::NotRomfs`] if `source` does not begin with the magic number, and all read errors.
    pub fn open(source: S) -> Result<Self, Error> {
        let superblock = Superblock::read(&source)?;
        let index = Index::find(&source, superblock.size)?;
        Ok(Self {
            source,
            superblock,
            index,
        })
    }

    /// The volume's name, without a NUL at its end.
    pub fn volume_name(&self) -> &[u8] {
        &self.superblock.volume_name
    }

    /// The size in bytes according to the superblock: all but padding and index.
    pub fn size(&self) -> u32 {
        self.superblock.size
    }

    /// The root directory.
    pub fn root(&self) -> NodeId {
        self.superblock.root
    }

    /// An upper bound of the number of entries: each has a header of its own.
    pub(crate) fn max_entries(&self) -> u64 {
        (self.size() / MIN_HEADER_LEN).into()
    }

    /// The number of a node in a [`Tree`](verimount_tree::Tree).
    pub(crate) fn number(&self, id: NodeId) -> Result<TreeNodeId, Error> {
        if id == self.root() {
            return Ok(TreeNodeId::ROOT);
        }
        // The superblock is where the number would be 0.
        let outside = || Defect::HeaderRange.at(id).into();
        TreeNodeId::new(id.into()).ok_or_else(outside)
    }

    /// The source that holds the image.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Reads the header of a node, in one read.
    ///
    /// # Errors
    /// All read errors. The header of a hard link is [`Error::Corrupt`]: ids returned by this type
    /// are those of the targets, never of hard links.
    pub fn node(&self, id: NodeId) -> Result<Node, Error> {
        Ok(self.header(id)?.node(self.size())?)
    }

    /// The entries of a directory except `.` and `..`, in the image's order. A hard link has the
    /// node of its target.
    ///
    /// With an index, this takes one read per MiB, and one for all directories at the first call.
    /// Without one, adjacent headers are read together, and other headers and targets of hard links
    /// one by one.
    ///
    /// # Errors
    /// All read errors. For a node that is not a directory: [`Error::Corrupt`] if the image has an
    /// index, else [`Error::NotADirectory`].
    pub fn entries(&self, directory: NodeId) -> Result<Entries, Error> {
        self.entries_up_to(directory, MAX_DIRECTORY_ENTRIES)
    }

    /// As [`Self::entries`], but for at most `most` entries, which bounds the memory.
    ///
    /// # Errors
    /// As [`Self::entries`]; [`Limit::DirectoryEntries`] if there are more.
    pub fn entries_up_to(&self, directory: NodeId, most: usize) -> Result<Entries, Error> {
        let most = most.min(MAX_DIRECTORY_ENTRIES);
        match &self.index {
            Some(index) => index.entries(&self.source, directory, most),
            None => self.chain(directory, most),
        }
    }

    /// Reads the target of a symbolic link: 1 to 4095 bytes without NUL. May use `scratch` as the
    /// buffer.
    ///
    /// # Errors
    /// All read errors; [`Error::NotASymlink`] for other nodes.
    pub fn symlink_target<'s>(
        &self,
        node: &Node,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        if node.file_type != FileType::Symlink {
            return Err(Error::NotASymlink(node.id));
        }
        let len = to_usize(node.size);
        let target = self.source.read_borrowed(scratch, node.data_offset, len)?;
        if target.contains(&0) {
            return Err(Defect::TargetCharacter.at(node.data_offset).into());
        }
        Ok(target)
    }

    /// The directory that another one is in: what its `..` leads to, which is one of the first headers of its chain. `None` if
    /// there is none.
    pub(crate) fn parent(&self, directory: NodeId) -> Result<Option<Node>, Error> {
        let mut next = self.header(directory)?.first_child()?;
        for _ in 0..MAX_ANCESTORS {
            let Some(id) = next else { break };
            let header = self.header(id)?;
            if let (b"..", Some(target)) = (&*header.name, header.link_target()) {
                let parent = self.node(target?)?;
                return match parent.file_type {
                    FileType::Directory => Ok(Some(parent)),
                    _ => Err(Defect::Dot.at(id).into()),
                };
            }
            next = header.next();
        }
        Ok(None)
    }

    /// Reads the entries of a directory by following its chain of headers.
    pub(crate) fn chain(&self, directory: NodeId, most: usize) -> Result<Entries, Error> {
        let mut entries = Entries::default();
        self.follow_chain(directory, most, &mut entries)?;
        entries
            .sort_names()
            .map_err(|defect| defect.at(directory))?;
        Ok(entries)
    }

    /// Adds the entries of a directory's chain up to its end or first defect, at most `most`.
    pub(crate) fn follow_chain(
        &self,
        directory: NodeId,
        most: usize,
        entries: &mut Entries,
    ) -> Result<(), Error> {
        let mut next = self.header(directory)?.first_child()?;
        let mut window = HeaderWindow::default();
        let mut passed = HashSet::new();
        let mut ancestors = 0_usize;
        while let Some(id) = next {
            if !passed.insert(id) {
                return Err(Defect::ChainLoop.at(id).into());
            }
            let header = match window.header(self, id) {
                Some(header) => header,
                None => self.header(id)?,
            };
            next = header.next();
            if header.stands_for_ancestor()? {
                // These are not counted as entries, so the limit on entries does not bound them.
                ancestors = ancestors.saturating_add(1);
                if ancestors > MAX_ANCESTORS {
                    return Err(Defect::RepeatedName.at(directory).into());
                }
                continue;
            }
            if entries.len() == most {
                return Err(Error::Unsupported(Limit::DirectoryEntries));
            }
            let node = self.target(&header)?;
            entries.push(&header.name, &node);
        }
        Ok(())
    }

    /// The node of a header in a chain; of a hard link, the node of its target.
    fn target(&self, header: &Header) -> Result<Node, Error> {
        let Some(target) = header.link_target() else {
            return Ok(header.node(self.size())?);
        };
        let node = self.node(target?)?;
        if node.file_type == FileType::Directory {
            return Err(Defect::LinkToDirectory.at(node.id).into());
        }
        Ok(node)
    }

    fn header(&self, id: NodeId) -> Result<Header, Error> {
        let available = self.size().checked_sub(id.get());
        let available = available
            .filter(|_| id >= self.root())
            .ok_or(Defect::HeaderRange.at(id))?;
        let longest = to_usize(available).min(MAX_HEADER_LEN);
        match self.header_within(id, longest) {
            // Perhaps only bytes after the header are unreadable: try shorter lengths.
            Err(Error::Source(error)) => (to_usize(MIN_HEADER_LEN)..longest)
                .step_by(to_usize(ALIGNMENT))
                .map(|len| self.header_within(id, len))
                .find(|header| matches!(header, Ok(_) | Err(Error::Source(_))))
                .unwrap_or(Err(error.into())),
            header => header,
        }
    }

    /// The header of `id`, if it takes at most `len` bytes. `len` is at most [`MAX_HEADER_LEN`].
    fn header_within(&self, id: NodeId, len: usize) -> Result<Header, Error> {
        let mut buf = [0; MAX_HEADER_LEN];
        let bytes = buf.get_mut(..len).unwrap_or_default();
        self.source.read_exact_at(bytes, id.into())?;
        Ok(Header::parse(id, bytes)?)
    }
}
