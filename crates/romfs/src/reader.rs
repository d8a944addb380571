use std::collections::HashSet;

use verimount_source::{ReadAt, Window};

use crate::{
    Entry, Error, Limit, Node, NodeId, NodeKind,
    error::Defect,
    geometry::{ALIGNMENT, MAX_HEADER_LEN, MIN_HEADER_LEN, to_usize},
    header::Header,
    index::Index,
    superblock::Superblock,
};

/// Most entries of a directory, so that a listing takes less than some 400 MB.
pub(crate) const MAX_DIRECTORY_ENTRIES: usize = 1 << 20;

/// Most headers in a directory's chain that are no entries: `.` and `..`.
const MAX_ANCESTORS: usize = 2;

/// Most headers in a directory's chain.
const MAX_CHAIN_LEN: usize = MAX_DIRECTORY_ENTRIES.saturating_add(MAX_ANCESTORS);

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

    /// Whether the image has a header index.
    pub fn has_index(&self) -> bool {
        self.index.is_some()
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
    /// With an index that is one read, after one for all directories at the first call. Without
    /// one, each entry costs a read, and each hard link two.
    ///
    /// # Errors
    /// All errors of reading; [`Error::NotADirectory`] for a node that is none, or
    /// [`Error::Corrupt`] where the image has an index, which then lacks it.
    pub fn entries(&self, directory: NodeId) -> Result<Vec<Entry>, Error> {
        match &self.index {
            Some(index) => index.entries(&self.source, directory),
            None => self.chain(directory),
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

    /// The target of a symbolic link: 1 to 4095 bytes without NUL.
    ///
    /// # Errors
    /// All errors of reading; [`Error::NotASymlink`] for any other node.
    pub fn symlink_target(&self, node: &Node) -> Result<Vec<u8>, Error> {
        if node.kind != NodeKind::Symlink {
            return Err(Error::NotASymlink(node.id));
        }
        let mut target = vec![0; to_usize(node.size)];
        self.source.read_exact_at(&mut target, node.data_offset)?;
        if target.contains(&0) {
            return Err(Defect::TargetCharacter.at(node.data_offset).into());
        }
        Ok(target)
    }

    /// The entries of a directory by following its chain of headers.
    pub(crate) fn chain(&self, directory: NodeId) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        self.follow_chain(directory, &mut entries)?;
        reject_repeated_names(&entries, directory)?;
        Ok(entries)
    }

    /// Adds what a directory's chain has up to its end or its first defect.
    pub(crate) fn follow_chain(
        &self,
        directory: NodeId,
        entries: &mut Vec<Entry>,
    ) -> Result<(), Error> {
        let mut next = self.header(directory)?.first_child()?;
        let mut passed = HashSet::new();
        let mut ancestors = 0_usize;
        while let Some(id) = next {
            if !passed.insert(id) {
                return Err(Defect::ChainLoop.at(id).into());
            }
            if passed.len() > MAX_CHAIN_LEN {
                return Err(Error::Unsupported(Limit::DirectoryEntries));
            }
            let header = self.header(id)?;
            next = header.next();
            if header.stands_for_ancestor()? {
                // They are no entries, by which a walk is bounded.
                ancestors = ancestors.saturating_add(1);
                if ancestors > MAX_ANCESTORS {
                    return Err(Defect::RepeatedName.at(directory).into());
                }
                continue;
            }
            let node = self.target(&header)?;
            let name = header.name;
            entries.push(Entry { name, node });
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

/// Checks that all names in a directory differ.
pub(crate) fn reject_repeated_names(entries: &[Entry], directory: NodeId) -> Result<(), Error> {
    let mut names: Vec<&[u8]> = entries.iter().map(|entry| &*entry.name).collect();
    // Our own images are sorted already, which the sort notices in one pass.
    names.sort();
    if !names.is_sorted_by(|a, b| a < b) {
        return Err(Defect::RepeatedName.at(directory).into());
    }
    Ok(())
}
