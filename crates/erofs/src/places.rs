//! Where in the image the parts of a file are, which may be damaged.

use std::ops::{ControlFlow, Range};

use verimount_tree::{FileType, PlaceKind};

use crate::{
    Error,
    error::Defect,
    image::Image,
    inode::Inode,
    inode_id::InodeId,
    layout::Layout,
    numbers::to_u64,
    piece::{Place, Stored},
    raw::XattrEntry,
    space::{Address, Space},
};

/// How many places may be found even in the smallest image.
const MIN_LIMIT: u64 = 1 << 20;

/// How many places are found of all files: as many as the image has bytes, as no file that a writer makes has a part of less
/// than a byte. Files can share data, and their maps, so that an image can have far more.
pub(crate) fn limit(image: &Image) -> u64 {
    image.devices.image().size().max(MIN_LIMIT)
}

/// The search for the places of a file.
pub(crate) struct Places<'a> {
    pub(crate) image: &'a Image,
    /// How many may follow.
    pub(crate) left: &'a mut u64,
    /// Gets ranges of the image, and what is in each. A range is empty for what is not in the image.
    pub(crate) visit: &'a mut dyn FnMut(Range<u64>, PlaceKind) -> ControlFlow<()>,
}

/// Why a search ended early.
#[derive(Debug)]
pub(crate) enum Ended {
    ByVisitor,
    ByLimit,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Places<'_> {
    /// Visits the ranges that are read for any operation on a file, until `visit` breaks.
    pub(crate) fn of(&mut self, id: InodeId) -> Result<(), Ended> {
        self.inode_itself(id)?;
        let inode = self.image.inode(id)?;
        self.metadata(inode.xattrs.at, inode.xattrs.len)?;
        for address in self.image.shared_xattrs(&inode)? {
            let len = self.image.xattr_len(address);
            self.metadata(address, len.unwrap_or(to_u64(size_of::<XattrEntry>())))?;
        }
        let kind = match inode.file_type {
            FileType::RegularFile | FileType::Symlink => PlaceKind::Content,
            _ => PlaceKind::Metadata,
        };
        self.content(&inode, 0..inode.size, kind)
    }

    /// Where an inode is, which is known even if it is unreadable.
    fn inode_itself(&mut self, id: InodeId) -> Result<(), Ended> {
        let at = self.image.inode_address(id)?;
        self.metadata(at, self.image.inode_len(at))
    }

    /// A part of what an inode leads to, with the part of its map that is for it.
    fn content(&mut self, inode: &Inode, part: Range<u64>, kind: PlaceKind) -> Result<(), Ended> {
        if part.is_empty() {
            return Ok(());
        }
        match inode.layout {
            Layout::Hole | Layout::Flat { .. } => {}
            Layout::Chunks(chunks) => {
                let (at, len) = chunks.records_of(&part)?;
                self.metadata(at, len)?;
            }
            Layout::Compressed(compressed) => {
                let (at, len) = compressed.header();
                self.metadata(at, len)?;
                let records = compressed.records_of(self.image, inode, &part)?;
                if let Some((at, len)) = records {
                    self.metadata(at, len)?;
                }
            }
        }
        let mut at = part.start;
        while at < part.end {
            let piece = self.image.piece(inode, at)?;
            let len = piece.len.min(part.end.saturating_sub(at));
            self.stored(piece.stored, len, kind)?;
            at = at.saturating_add(len);
        }
        Ok(())
    }

    /// A part of `len` bytes that is stored in one way.
    fn stored(&mut self, stored: Stored, len: u64, kind: PlaceKind) -> Result<(), Ended> {
        match stored {
            Stored::Hole => self.nothing(),
            Stored::Plain(place) => self.place(place, len, kind),
            Stored::Fragment(at) => {
                if let Some(id) = self.image.superblock.packed_inode {
                    self.inode_itself(id)?;
                }
                let packed = self.image.packed_inode()?;
                let end = at.checked_add(len).filter(|end| *end <= packed.size);
                let end = end.ok_or(Defect::Fragment.at(packed.xattrs.at))?;
                self.content(&packed, at..end, kind)
            }
            // All of it is needed for any part of it.
            Stored::Compressed { cluster, .. } => self.place(cluster.place, cluster.stored, kind),
        }
    }

    fn place(&mut self, place: Place, len: u64, kind: PlaceKind) -> Result<(), Ended> {
        match place {
            Place::Device { device: 0, at } => self.range(at, len, kind),
            Place::Device { .. } => self.nothing(),
            Place::Metadata(address) => self.address(address, len, kind),
        }
    }

    fn metadata(&mut self, address: Address, len: u64) -> Result<(), Ended> {
        self.address(address, len, PlaceKind::Metadata)
    }

    fn address(&mut self, address: Address, len: u64, kind: PlaceKind) -> Result<(), Ended> {
        match address.space {
            Space::Image => self.range(address.at, len, kind),
            Space::Content(id) => {
                self.inode_itself(id)?;
                let inode = self.image.inode(id)?;
                let end = address.at.saturating_add(len).min(inode.size);
                self.content(&inode, address.at..end, kind)
            }
        }
    }

    fn nothing(&mut self) -> Result<(), Ended> {
        self.range(0, 0, PlaceKind::Content)
    }

    fn range(&mut self, at: u64, len: u64, kind: PlaceKind) -> Result<(), Ended> {
        *self.left = self.left.checked_sub(1).ok_or(Ended::ByLimit)?;
        match (self.visit)(at..at.saturating_add(len), kind) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Ended::ByVisitor),
        }
    }
}
