//! Makes an image of a scanned tree.
//!
//! [`plan`] decides everything before a byte is written: what each inode takes ([`shape`]), which files
//! have the same content ([`equal`]), and where everything is ([`layout`]). Writing the plan
//! ([`emit`]) then only copies, front to back.

// All numbers come from a tree that was scanned, not from an image; the layout checks their sum.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing
)]

mod attributes;
mod chunk_map;
mod directory;
mod emit;
mod equal;
mod error;
mod layout;
mod metadata_space;
mod shape;
mod superblock;
mod uuid;
mod volume_name;

use std::io::Write;

use verimount_scan::{SourceTree, Summary};
use verimount_source::Progress;

use self::{attributes::Attributes, equal::Equal, layout::Layout, shape::Time};
pub use self::{
    error::{BuildError, Unstorable},
    volume_name::{InvalidVolumeName, VolumeName},
};
use crate::block_size::BlockSize;

/// Options for an image.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The volume's name.
    pub volume_name: VolumeName,
    /// Its blocks. The contents of larger files begin with a block.
    pub block_size: BlockSize,
}

/// The layout of an image that is to be written.
#[derive(Debug)]
pub struct Plan {
    tree: SourceTree,
    attributes: Attributes,
    equal: Equal,
    layout: Layout,
    format: Format,
    volume_name: VolumeName,
}

/// What is the same for the whole image.
#[derive(Debug, Clone, Copy)]
struct Format {
    block: BlockSize,
    /// The time of all inodes without an own one.
    time: Time,
}

/// Plans the image of a tree.
///
/// Everything in the tree is kept. The plan, and so the image, depends on nothing else: not on the order
/// in which the tree was made, nor on the file system or machine that it is on. But holes are part of the
/// tree, and some file systems move or lose them. The plan takes some 30 bytes of memory for each
/// inode besides the tree.
///
/// Files of equal size that take blocks of their own are read, for equal contents to be stored once: a part
/// of each, and all of those whose parts are equal.
///
/// # Errors
/// [`BuildError::Unstorable`] for what exceeds the limits of the format, and [`BuildError::Scan`] for
/// files that cannot be read, or have changed since the tree was scanned.
pub fn plan(tree: SourceTree, options: &Options) -> Result<Plan, BuildError> {
    let format = Format {
        block: options.block_size,
        time: shape::most_common_time(&tree),
    };
    let attributes = Attributes::new(&tree)?;
    let equal = equal::find(&tree, &attributes, format)?;
    let layout = layout::lay_out(&tree, &attributes, &equal, format)?;
    Ok(Plan {
        tree,
        attributes,
        equal,
        layout,
        format,
        volume_name: options.volume_name,
    })
}

impl Plan {
    /// Size of the image in bytes: a multiple of its block size.
    pub fn image_size(&self) -> u64 {
        self.layout.blocks * self.format.block.bytes()
    }

    /// Summary of the image's contents.
    pub fn summary(&self) -> &Summary {
        self.tree.summary()
    }

    /// Number of files whose content another file has, too, so that it is stored once.
    pub fn shared_files(&self) -> usize {
        self.equal.len()
    }

    /// Writes the image, front to back. Does not flush `out` to storage.
    ///
    /// # Errors
    /// [`BuildError::Output`] for failing writes, [`BuildError::Cancelled`] if `progress` says so, and [`BuildError::Scan`] for files that cannot be
    /// read, and for files and directories that have changed since the tree was scanned. The output is
    /// then not a valid image.
    pub fn write_to(
        &self,
        out: &mut impl Write,
        progress: &mut Progress<'_>,
    ) -> Result<(), BuildError> {
        emit::emit(self, out, progress)
    }
}
