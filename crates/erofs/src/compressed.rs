//! The maps of compressed files: which cluster holds a byte of the content.
//!
//! A file's content is divided into *logical clusters* of one size, and compressed in *extents*, which begin anywhere in them.
//! The data of each extent is a *cluster* in the image. An index tells for each logical cluster where an extent begins in it, or
//! how far away the beginning is.

mod compact_index;
mod extent;
mod extent_list;
mod full_index;
mod index;
mod map;
mod record;
mod sums;

use std::ops::Range;

use crate::{Error, error::Defect, image::Image, inode::Inode, piece::Piece, space::Address};

#[cfg(feature = "write")]
pub(crate) use self::compact_index::{MIN_VALUE_BITS, PackKind, Packs};
use self::map::{HEADER_LEN, Map};
pub(crate) use self::{index::Form, sums::AllSums};

/// The content of a compressed file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compressed {
    form: Form,
    /// Where the header of its map is.
    header: Address,
}

impl Compressed {
    /// The content of a file whose map has this form and is behind `behind`.
    pub(crate) fn new(form: Form, behind: Address) -> Result<Self, Error> {
        let header = behind.aligned_to(8);
        let header = header.ok_or(Defect::Address.at(behind))?;
        Ok(Self { form, header })
    }

    /// Where the header of the map is, and its length in bytes.
    pub(crate) fn header(&self) -> (Address, u64) {
        (self.header, HEADER_LEN)
    }

    /// Where the records of the map are for a part of the content, which is not empty, and their length in bytes; `None` if
    /// there are none.
    pub(crate) fn records_of(
        &self,
        image: &Image,
        inode: &Inode,
        part: &Range<u64>,
    ) -> Result<Option<(Address, u64)>, Error> {
        let map = Map::read(image, self.form, self.header)?;
        let Some((start, end)) = map.records_of(image, inode.size, part)? else {
            return Ok(None);
        };
        Ok(Some((start, end.at.saturating_sub(start.at))))
    }

    /// What holds byte `offset` of the content, which has more.
    pub(crate) fn piece(&self, image: &Image, inode: &Inode, offset: u64) -> Result<Piece, Error> {
        let map = Map::read(image, self.form, self.header)?;
        let extent = map.extent(image, inode.size, offset)?;
        let is_packed = image.superblock.packed_inode == Some(inode.id);
        if is_packed && extent.is_fragment() {
            // It would be in itself.
            return Err(Defect::Fragment.at(self.header).into());
        }
        extent.piece(image, self.header, offset)
    }
}
