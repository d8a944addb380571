//! Recognises the format of an image: the only place that knows all formats.
//!
//! [`open`] gives the [`Tree`] in an image, whose users need not know the format. What depends on how
//! a tree is stored is here, too: whether an image [contradicts itself](check), which files a [damaged
//! range](name_parts) belongs to, and whether an image [is truncated](truncation).

mod parts;

use std::sync::Arc;

use verimount_erofs::{ErofsTree, Error as ErofsError, Superblock};
use verimount_romfs::{Error as RomfsError, Romfs, RomfsTree};
use verimount_source::ReadAt;
use verimount_tree::{Error, Tree};

pub use parts::name_parts;

/// Why devices are refused by all that is not EROFS.
const NO_DEVICES: &str = "it is not an image that can have further devices";

/// The tree in the image that `content` begins with; `None` if it is not an image.
///
/// `devices` are the further ones of the image, in the order of its device table. If none are given, their data is
/// looked for in `content`.
///
/// # Errors
/// Any [`Error`] of reading or of the image; [`Error::Unsupported`] for other devices than the image has.
pub fn open(
    content: Arc<dyn ReadAt>,
    devices: Vec<Arc<dyn ReadAt>>,
) -> Result<Option<Box<dyn Tree>>, Error> {
    let has_devices = !devices.is_empty();
    match RomfsTree::open(content.clone()) {
        Ok(_) if has_devices => return Err(Error::unsupported(NO_DEVICES)),
        Ok(tree) => return Ok(Some(Box::new(tree))),
        Err(RomfsError::NotRomfs) => {}
        Err(error) => return Err(error.into()),
    }
    match ErofsTree::open(content, devices) {
        Ok(tree) => Ok(Some(Box::new(tree))),
        Err(ErofsError::NotErofs) if has_devices => Err(Error::unsupported(NO_DEVICES)),
        Err(ErofsError::NotErofs) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What the superblock of an image says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The name of the format.
    pub format: &'static str,
    /// Size in bytes, without what is appended to the format's own data.
    pub size: u64,
    /// The name of the volume, which need not be text.
    pub volume_name: Vec<u8>,
    /// How many further devices it has, which may be parts of the image itself.
    pub devices: u16,
}

/// Reads the superblock of an image; `None` if `content` is not an image.
///
/// # Errors
/// Any [`Error`] of reading or of the image.
pub fn describe(content: Arc<dyn ReadAt>) -> Result<Option<Description>, Error> {
    match Romfs::open(content.clone()) {
        Ok(image) => {
            return Ok(Some(Description {
                format: "romfs",
                size: image.size().into(),
                volume_name: image.volume_name().to_vec(),
                devices: 0,
            }));
        }
        Err(RomfsError::NotRomfs) => {}
        Err(error) => return Err(error.into()),
    }
    let superblock = match Superblock::read(&*content) {
        Ok(superblock) => superblock,
        Err(ErofsError::NotErofs) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    superblock.check_length(content.size())?;
    Ok(Some(Description {
        format: "erofs",
        size: superblock.size(),
        volume_name: superblock.volume_name().to_vec(),
        devices: superblock.devices(),
    }))
}

/// Compares the redundant parts of an image. Where they differ, other readers of the format see another
/// tree, although every byte is as it was when the image was sealed. Passes if `content` is not an image.
///
/// # Errors
/// [`Error::Corrupt`] if they differ, and any other [`Error`] of reading or of the image.
pub fn check(content: Arc<dyn ReadAt>) -> Result<(), Error> {
    match Romfs::open(content) {
        Ok(image) => Ok(image.check_index()?),
        Err(RomfsError::NotRomfs) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The error for a truncated image; `None` unless `content` is the beginning of a longer image.
pub fn truncation(content: Arc<dyn ReadAt>) -> Option<Error> {
    match Romfs::open(content.clone()) {
        Err(error @ RomfsError::Truncated { .. }) => return Some(error.into()),
        Err(RomfsError::NotRomfs) => {}
        _ => return None,
    }
    let superblock = Superblock::read(&*content).ok()?;
    superblock
        .check_length(content.size())
        .err()
        .map(Error::from)
}
