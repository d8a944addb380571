//! Making an image of a directory tree.
//!
//! [`plan`] decides everything before a byte is written: it scans the tree in walk order
//! ([`scan`]), gives every entry its place ([`layout`]), and refuses what does not fit. Writing the
//! plan ([`emit`]) then only copies, front to back.

mod acl;
mod cursor;
mod emit;
mod index;
mod inspect;
mod layout;
mod losses;
mod scan;
mod sink;
mod summary;
mod tree;

use std::{io::Write, path::Path};

pub use losses::{Example, Loss, Losses, Lost};
pub use summary::Summary;

use self::{layout::Sizes, tree::Tree};
use crate::{BlockSize, Error, VolumeName};

/// Most bytes of a stored name. The format has room for 128, but the kernel's listing of a
/// directory shows only 127 of them.
pub const MAX_NAME_LEN: usize = 127;

/// How an image is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The volume's name.
    pub volume_name: VolumeName,
    /// What the data of files of at least that size is aligned to, and the image padded to.
    pub block_size: BlockSize,
}

/// An image that is yet to be written: what goes where.
#[derive(Debug)]
pub struct Plan {
    tree: Tree,
    losses: Losses,
    sizes: Sizes,
    volume_name: VolumeName,
}

/// Plans the image of the tree at `root`.
///
/// Symbolic links inside the tree are stored, not followed; file systems mounted inside it are
/// part of it. What the format has no place for is left out, and told by [`Plan::losses`]: owners,
/// times, extended attributes and all permission bits but the executable one. An image can keep
/// nobody from reading it: whoever makes one must see to it that [`Loss::Privacy`] is wanted.
///
/// The tree may be changed meanwhile, also by somebody who is not trusted: nothing outside of it gets
/// into the image by that.
///
/// The plan, and so the image, depends on names, contents, types, executable bits and hard links
/// only. It is held in memory, some 200 bytes per entry; contents are not.
///
/// # Errors
/// [`Error::Tree`] for what cannot be read, [`Error::Changed`] for what is moved or removed meanwhile,
/// and [`Error::Unstorable`] for what the format has no room for.
pub fn plan(root: &Path, options: &Options) -> Result<Plan, Error> {
    let (mut tree, losses) = scan::scan(root)?;
    let sizes = layout::lay_out(&mut tree, options)?;
    Ok(Plan {
        tree,
        losses,
        sizes,
        volume_name: options.volume_name.clone(),
    })
}

impl Plan {
    /// Bytes that the image will have, with its padding and index.
    pub fn image_size(&self) -> u64 {
        self.sizes.image
    }

    /// What the image will hold.
    pub fn summary(&self) -> &Summary {
        &self.tree.summary
    }

    /// What of the tree the image will not keep.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Writes the image, front to back, and tells `progress` now and then how many bytes are
    /// written. It does not flush `out` to storage.
    ///
    /// # Errors
    /// [`Error::Output`] for failing writes, [`Error::Tree`] for files that cannot be read, and
    /// [`Error::Changed`] for files and directories that are not what they were when the image was
    /// planned. What was written then is not an image.
    pub fn write_to(
        &self,
        out: &mut impl Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        emit::emit(self, out, progress)
    }
}
