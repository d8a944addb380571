use std::collections::HashSet;

use verimount_source::{ReadAt, Scratch, Window};

use crate::{
    Entries, Error, Limit, Node, NodeId, NodeKind,
    error::Defect,
    geometry::{ALIGNMENT, MAX_HEADER_LEN, MIN_HEADER_LEN, to_usize},
    header::Header,
    header_window::HeaderWindow,
    index::Index,
    superblock::Superblock,
};

/// Most entries of a directory: with the longest names, they take 155 MB of memory.
pub(crate) const MAX_DIRECTORY_ENTRIES: usize = 1 << 20;

/// Most headers in a directory's chain that are no entries: `.` and `..`.
const MAX_ANCESTORS: usize = 2;

/// A romfs image.
///
/// Opening one reads its superblock only; headers are read, and checked, as they are asked for.
#[derive(Debug)]
pub struct Romfs<S> {
    pub(crate) source: S,
    pub(crate) superblock: Superblock,
    pub(crate) index: Option<Index>,
}

impl<S: ReadAt> Romfs<S> {
    /// Opens the image that `source` begins with.
    ///
    /// # Errors
    /// [`Error::NotRomfs`] for anything that does not begin as an image does, and all errors of
    /// reading.
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

    /// The number of bytes that the superblock gives: all but padding and index.
    pub fn size(&self) -> u32 {
        self.superblock.size
    }

    /// The root directory.
    pub fn root(&self) -> NodeId {
        self.superblock.root
    }

    /// The bytes that hold the image.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Reads the header of a node, in one read.
    ///
    /// # Errors
    /// All errors of reading. A hard link's header is [`Error::Corrupt`]: the ids given out here
    /// are never of hard links, but of what these point to.
    pub fn node(&self, id: NodeId) -> Result<Node, Error> {
        Ok(self.header(id)?.node(self.size())?)
    }

    /// The entries of a directory, all but `.` and `..`, in the image's order. An entry that is a
    /// hard link has its target's node.
    ///
    /// With an index that is one read for each MiB, after one for all directories at the first
    /// call. Without one, headers that follow one another are read together, all others one by one,
    /// and each hard link's target besides.
    ///
    /// # Errors
    /// All errors of reading; [`Error::NotADirectory`] for a node that is not a directory, or
    /// [`Error::Corrupt`] where the image has an index, which then lacks it.
    pub fn entries(&self, directory: NodeId) -> Result<Entries, Error> {
        self.entries_up_to(directory, MAX_DIRECTORY_ENTRIES)
    }

    /// The same of a directory that has no more than `most` entries, which bounds the memory.
    ///
    /// # Errors
    /// As [`Self::entries`]; [`Limit::DirectoryEntries`] where there are more.
    pub fn entries_up_to(&self, directory: NodeId, most: usize) -> Result<Entries, Error> {
        let most = most.min(MAX_DIRECTORY_ENTRIES);
        match &self.index {
            Some(index) => index.entries(&self.source, directory, most),
            None => self.chain(directory, most),
        }
    }

    /// The data of a file, or the target of a symbolic link, as a source of its own. It is empty
    /// for all other nodes.
    ///
    /// # Errors
    /// [`Error::Source`] for a node of another, larger image.
    pub fn data(&self, node: &Node) -> Result<Window<&S>, Error> {
        let size = u64::from(node.size);
        Ok(Window::new(&self.source, node.data_offset, size)?)
    }

    /// The target of a symbolic link, in `scratch`: 1 to 4095 bytes without NUL.
    ///
    /// # Errors
    /// All errors of reading; [`Error::NotASymlink`] for any other node.
    pub fn symlink_target<'s>(
        &self,
        node: &Node,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        if node.kind != NodeKind::Symlink {
            return Err(Error::NotASymlink(node.id));
        }
        let len = to_usize(node.size);
        let target = self.source.read_borrowed(scratch, node.data_offset, len)?;
        if target.contains(&0) {
            return Err(Defect::TargetCharacter.at(node.data_offset).into());
        }
        Ok(target)
    }

    /// The entries of a directory by following its chain of headers.
    pub(crate) fn chain(&self, directory: NodeId, most: usize) -> Result<Entries, Error> {
        let mut entries = Entries::default();
        self.follow_chain(directory, most, &mut entries)?;
        entries
            .sort_names()
            .map_err(|defect| defect.at(directory))?;
        Ok(entries)
    }

    /// Adds what a directory's chain has up to its end or its first defect: no more than `most`
    /// entries.
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
                // They are no entries, by which a walk is bounded.
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

    /// What a header in a chain stands for: itself, or what it links to.
    fn target(&self, header: &Header) -> Result<Node, Error> {
        let Some(target) = header.link_target() else {
            return Ok(header.node(self.size())?);
        };
        let node = self.node(target?)?;
        if node.kind == NodeKind::Directory {
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
            // It may be what follows the header that cannot be read.
            Err(Error::Source(error)) => (to_usize(MIN_HEADER_LEN)..longest)
                .step_by(to_usize(ALIGNMENT))
                .map(|len| self.header_within(id, len))
                .find(|header| matches!(header, Ok(_) | Err(Error::Source(_))))
                .unwrap_or(Err(error.into())),
            header => header,
        }
    }

    /// The header of `id`, if it takes no more than `len` bytes, which is [`MAX_HEADER_LEN`] at most.
    fn header_within(&self, id: NodeId, len: usize) -> Result<Header, Error> {
        let mut buf = [0; MAX_HEADER_LEN];
        let bytes = buf.get_mut(..len).unwrap_or_default();
        self.source.read_exact_at(bytes, id.into())?;
        Ok(Header::parse(id, bytes)?)
    }
}
