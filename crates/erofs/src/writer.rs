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
mod compress;
mod directory;
mod emit;
mod equal;
mod groups;
mod layout;
mod limits;
mod metadata_space;
mod shape;
mod superblock;
mod unstorable;
mod uuid;
mod volume_name;

use std::{
    io::{Read, Seek, Write},
    num::NonZeroUsize,
    sync::Arc,
};

use verimount_scan::{BuildError, Entry, InodeId, Observer, SourceTree};
use verimount_source::Progress;
use verimount_tree::Timestamp;

use self::{
    attributes::Attributes, compress::index::MAX_BLOCK_BITS, equal::Equal, layout::Layout,
    shape::Shape,
};
pub use self::{
    compress::{
        ClusterSize, Codec, Compression, InvalidClusterSize, InvalidCodec, Level, Lz4Level,
        ZstdLevel,
    },
    unstorable::Unstorable,
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
    /// How contents of more than a block are compressed, if at all. Files with holes are not compressed.
    pub compression: Option<Compression>,
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
    compression: Option<Compression>,
    /// The time of all inodes without an own one.
    time: Timestamp,
}

/// Plans the image of a tree.
///
/// Everything in the tree is kept. The plan, and so the image, depends on nothing else: not on the order
/// in which the tree was made, nor on the file system or machine that it is on. But holes are part of the
/// tree, and some file systems move or lose them. The plan takes some 30 bytes of memory for each
/// inode besides the tree.
///
/// Files of equal size that take blocks of their own are read, for equal contents to be stored once: a part
/// of each, and all of those whose parts are equal. `progress` is called with the bytes that were read.
///
/// # Errors
/// [`BuildError::Unstorable`] for what exceeds the limits of the format, [`BuildError::Format`] for compressed images with large blocks,
/// [`BuildError::Cancelled`] if `progress` says so, and [`BuildError::Scan`] for files that cannot be read,
/// or have changed since the tree was scanned.
pub fn plan(
    tree: SourceTree,
    options: &Options,
    progress: &mut Progress<'_>,
) -> Result<Plan, BuildError> {
    if options.compression.is_some() && options.block_size.bits() > MAX_BLOCK_BITS {
        let reason = "an image with blocks of more than 16 KiB cannot be compressed";
        return Err(BuildError::Format(reason.into()));
    }
    let format = Format {
        block: options.block_size,
        compression: options.compression,
        time: shape::most_common_time(&tree),
    };
    limits::check(&tree, format.block)?;
    let attributes = Attributes::new(&tree)?;
    let equal = equal::find(&tree, &attributes, format, progress)?;
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
    /// Size of the image in bytes: a multiple of its block size. If it is compressed, that is the most that it may be.
    pub fn image_size(&self) -> u64 {
        self.layout.blocks * self.format.block.bytes()
    }

    /// The tree.
    pub fn tree(&self) -> &SourceTree {
        &self.tree
    }

    /// The file whose content is stored for this one: another one, if that has the same.
    pub fn stored_as(&self, file: InodeId) -> InodeId {
        self.equal.first(file)
    }

    /// Has `observer` shown all contents that are stored, each once, while they are written.
    pub fn observe(&mut self, observer: Arc<dyn Observer>) {
        self.tree.observe(observer);
    }

    /// Writes the image from the beginning of `out` on. Does not flush `out` to storage.
    ///
    /// Contents are compressed in up to `threads` threads, but in no more than have room in 40 MiB of memory. Their number
    /// does not change the image. `progress` is told the bytes of the image, or those that it would have
    /// uncompressed.
    ///
    /// # Errors
    /// [`BuildError::Output`] for failing writes, [`BuildError::Cancelled`] if `progress` says so, and [`BuildError::Scan`] for files that cannot be
    /// read, and for files and directories that have changed since the tree was scanned. The output is
    /// then not a valid image.
    pub fn write_to(
        &self,
        out: &mut (impl Read + Write + Seek),
        threads: NonZeroUsize,
        progress: &mut Progress<'_>,
    ) -> Result<(), BuildError> {
        emit::emit(self, out, threads, progress)
    }

    fn shape(&self, entry: Entry<'_>) -> Shape {
        Shape::new(entry, &self.attributes, self.format)
    }
}
