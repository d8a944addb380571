//! Recognises the format of an image: the only place that knows all formats.
//!
//! [`open`] gives the [`Tree`] in an image, whose users need not know the format. What depends on how
//! a tree is stored is here, too: whether an image [contradicts itself](check), what is left of a [damaged
//! one](open_damaged), and whether an image [is truncated](truncation).

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use thiserror::Error as ThisError;

use verimount_erofs::{ErofsTree, Error as ErofsError, Superblock};
use verimount_names::printable;
use verimount_romfs::{Error as RomfsError, Romfs, RomfsTree};
use verimount_source::ReadAt;
use verimount_tree::{Error, NodeId, ROOT_PATH, Tree, walk};
use verimount_verity::Checked;

/// Why devices are refused by all that is not EROFS.
const NO_DEVICES: &str = "it is not an image that can have further devices";

/// The tree in the image that `content` begins with; `None` if it is not an image.
///
/// `devices` are the further ones of the image, in the order of its device table. If none are given, their data is
/// looked for in `content`.
///
/// # Errors
/// Any [`Error`] of reading or of the image; [`Error::Unsupported`] for other devices than the image has.
pub(crate) fn open(
    content: Checked,
    devices: Vec<Checked>,
) -> Result<Option<Box<dyn Tree>>, Error> {
    if !devices.is_empty() {
        return match ErofsTree::open(content, devices) {
            Err(ErofsError::NotErofs) => Err(Error::unsupported(NO_DEVICES)),
            tree => Ok(Some(Box::new(tree?))),
        };
    }
    let romfs = RomfsTree::open(content.clone());
    of_either(
        romfs.map(|tree| -> Box<dyn Tree> { Box::new(tree) }),
        || Ok(Box::new(ErofsTree::open(content, devices)?)),
    )
}

/// What the reader of either format makes of content; `None` if both say that it is another one.
fn of_either<T>(
    romfs: Result<T, RomfsError>,
    erofs: impl FnOnce() -> Result<T, ErofsError>,
) -> Result<Option<T>, Error> {
    match romfs {
        Err(RomfsError::NotRomfs) => match erofs() {
            Err(ErofsError::NotErofs) => Ok(None),
            read => Ok(Some(read?)),
        },
        read => Ok(Some(read?)),
    }
}

/// The tree in a partly unreadable image, of which as much as possible can be read; `None` if `content` is not an
/// image, or too damaged to be recognised. What such a tree lists need not be all.
///
/// # Errors
/// The reason why no file can be found.
pub(crate) fn open_damaged(content: Checked) -> Result<Option<Box<dyn Tree>>, Error> {
    match Romfs::open_damaged(content.clone()) {
        Ok(image) => return Ok(Some(Box::new(RomfsTree::new(image)))),
        Err(RomfsError::NotRomfs | RomfsError::Source(_)) => {}
        Err(error) => return Err(error.into()),
    }
    match Superblock::read(&content) {
        Err(ErofsError::NotErofs | ErofsError::Source(_)) => Ok(None),
        _ => Ok(Some(Box::new(ErofsTree::open(content, Vec::new())?))),
    }
}

/// What the superblock of an image says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageDescription {
    /// The name of the format.
    pub format: &'static str,
    /// Size in bytes, without what is appended to the format's own data.
    pub size: u64,
    /// The name of the volume, which need not be text.
    pub volume_name: Vec<u8>,
    /// How many further devices it has, which may be parts of the image itself.
    pub devices: u16,
    /// What it is stored as in registries.
    pub(crate) media_type: &'static str,
}

/// Reads the superblock of an image; `None` if `content` is not an image.
///
/// # Errors
/// Any [`Error`] of reading or of the image.
pub(crate) fn describe(content: &dyn ReadAt) -> Result<Option<ImageDescription>, Error> {
    let romfs = Romfs::open(content);
    let romfs = romfs.map(|image| ImageDescription {
        format: "romfs",
        size: image.size().into(),
        volume_name: image.volume_name().to_vec(),
        devices: 0,
        media_type: "application/vnd.verimount.data.v1.romfs",
    });
    of_either(romfs, || {
        let superblock = Superblock::read(content)?;
        superblock.check_length(content.size())?;
        Ok(ImageDescription {
            format: "erofs",
            size: superblock.size(),
            volume_name: superblock.volume_name().to_vec(),
            devices: superblock.devices(),
            // As containerd has it.
            media_type: "application/vnd.erofs.layer.v1",
        })
    })
}

/// Compares the redundant parts of an image: the header index of romfs with the headers, and whether there are access
/// control lists with what the image says about them. Where they differ, other readers of the format see another
/// tree, although every byte is as it was when the image was sealed. Passes if `content` is not an image, or
/// if nothing is redundant.
///
/// # Errors
/// [`Error::Corrupt`] if they differ, and any other [`Error`] of reading or of the image.
pub(crate) fn check(content: Checked) -> Result<(), Error> {
    match Romfs::open(content.clone()) {
        Ok(image) => return Ok(image.check_index()?),
        Err(RomfsError::NotRomfs) => {}
        Err(error) => return Err(error.into()),
    }
    match ErofsTree::open(content, Vec::new()) {
        Ok(tree) if !tree.has_access_lists() => {
            let most = tree.usage().bytes.saturating_mul(ATTRIBUTES_FOR_BYTE);
            check_that_none_has_a_list(&tree, most)
        }
        Ok(_) | Err(ErofsError::NotErofs) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file has an access control list, although the image says that none has.
#[derive(Debug, ThisError)]
#[error("{} has an access control list, although the image says that no file has one", printable(.0))]
struct UnexpectedList(PathBuf);

/// How many attributes are looked at for each byte of an image. Each takes some bytes, but a file may have several names, which
/// take 13 bytes or more.
const ATTRIBUTES_FOR_BYTE: u64 = 4;

/// The files of an image have more attributes than it has room for.
#[derive(Debug, ThisError)]
#[error("files share so many attributes that it would take too long to look at all of them")]
struct TooManyAttributes;

/// Checks it, looking at some more than `most` attributes at most.
fn check_that_none_has_a_list(tree: &ErofsTree, most: u64) -> Result<(), Error> {
    let check = |path: &Path, node| {
        let names = tree.xattr_names(node)?;
        if tree.work().attributes > most {
            return Err(Error::unsupported(TooManyAttributes));
        }
        let mut names = names.iter();
        if names.any(|name| name.as_bytes().starts_with(b"system.posix_acl_")) {
            Err(Error::corrupt(UnexpectedList(path.to_owned())))
        } else {
            Ok(())
        }
    };
    check(Path::new(ROOT_PATH), NodeId::ROOT)?;
    walk(tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        check(path, attr.node)
    })
}

/// The error for a truncated image; `None` unless `content` is the beginning of a longer image.
pub(crate) fn truncation(content: &dyn ReadAt) -> Option<Error> {
    match Romfs::open(content) {
        Err(error @ RomfsError::Truncated { .. }) => return Some(error.into()),
        Err(RomfsError::NotRomfs) => {}
        _ => return None,
    }
    let superblock = Superblock::read(content).ok()?;
    superblock
        .check_length(content.size())
        .err()
        .map(Error::from)
}

#[cfg(all(test, feature = "build"))]
mod tests;
