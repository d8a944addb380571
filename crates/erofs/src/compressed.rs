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

use crate::{Error, error::Defect, image::Image, inode::Inode, piece::Piece, space::Address};

pub(crate) use self::index::Form;
use self::map::Map;

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
