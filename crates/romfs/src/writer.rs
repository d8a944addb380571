//! Makes an image of a directory tree.
//!
//! [`plan`] decides everything before a byte is written: it assigns a place to every entry of a
//! scanned tree ([`layout`]), and refuses entries that do not fit.
//! Writing the plan ([`emit`]) then only copies, front to back.

mod emit;
mod index;
mod inspect;
mod layout;
mod tree;
mod unstorable;

use std::{io::Write, sync::Arc};

use verimount_scan::{BuildError, Entry, EntryId, Losses, Observer, SourceTree};
use verimount_source::Progress;

pub use self::unstorable::Unstorable;
use self::{layout::Sizes, tree::Tree};
use crate::{BlockSize, VolumeName};

/// Options for an image.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The volume's name.
    pub volume_name: VolumeName,
    /// Alignment of the data of files of at least this size, and of the image's length.
    pub block_size: BlockSize,
}

/// The layout of an image that is to be written.
#[derive(Debug)]
pub struct Plan {
    tree: Tree,
    losses: Losses,
    sizes: Sizes,
    volume_name: VolumeName,
}

/// Plans the image of a tree.
///
/// Attributes that the format cannot store are left out, and listed by [`Plan::losses`]: owners, times,
/// extended attributes and all permission bits but the executable one. An image denies nobody
/// reading, so the caller must make sure that [`Loss::Privacy`](verimount_scan::Loss::Privacy) is intended.
///
/// The plan, and so the image, depends only on names, contents, types, executable bits and hard
/// links. It is held in memory, about 200 bytes per entry; contents are not.
///
/// # Errors
/// [`BuildError::Unstorable`] for what exceeds the limits of the format.
pub fn plan(tree: SourceTree, options: &Options) -> Result<Plan, BuildError> {
    let mut tree = Tree::new(tree)?;
    let losses = inspect::losses(&tree);
    let sizes = layout::lay_out(&mut tree, options)?;
    Ok(Plan {
        tree,
        losses,
        sizes,
        volume_name: options.volume_name.clone(),
    })
}

/// The name of an entry in its header.
fn name_in_header(entry: Entry<'_>) -> &[u8] {
    match entry.id() {
        EntryId::ROOT => b".",
        _ => entry.name(),
    }
}

impl Plan {
    /// Size of the image in bytes, with padding and index.
    pub fn image_size(&self) -> u64 {
        self.sizes.image
    }

    /// The tree.
    pub fn tree(&self) -> &SourceTree {
        &self.tree.source
    }

    /// Has `observer` shown all contents that are stored, each once, while they are written.
    pub fn observe(&mut self, observer: Arc<dyn Observer>) {
        self.tree.source.observe(observer);
    }

    /// The attributes of the tree that the image will not store.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// The attributes of the tree that the image will not store, where nothing else is needed any more.
    pub fn into_losses(self) -> Losses {
        self.losses
    }

    /// Writes the image, front to back. Does not flush `out` to storage.
    ///
    /// # Errors
    /// [`BuildError::Output`] for failing writes, [`BuildError::Cancelled`] if `progress` says so, and [`BuildError::Scan`] for files that cannot be read, and for
    /// files and directories that have changed since the tree was scanned. The output is then not a
    /// valid image.
    pub fn write_to(
        &self,
        out: &mut impl Write,
        progress: &mut Progress<'_>,
    ) -> Result<(), BuildError> {
        emit::emit(self, out, progress)
    }
}
