use std::{fmt, io};

use thiserror::Error;
use verimount_erofs::BuildError as ErofsError;
use verimount_integrity::Error as VolumeError;
use verimount_romfs::Error as RomfsError;
use verimount_scan::{Error as ScanError, Loss, Lost};
use verimount_tree::Error as TreeError;
use verimount_verity::Error as VerityError;

use crate::{ImageArchiveError, Location, LossText, losses::shown};

/// Why something failed, and where. The text of an error includes those of its causes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused or failed it.
    #[error("{at}: {source}")]
    Io {
        /// The file or directory.
        at: Location,
        /// What the system said.
        source: io::Error,
    },
    /// A seal cannot be used, made or changed, or does not have the digest or root hash required.
    #[error("{at}: {source}")]
    Seal {
        /// The sealed file, or the one that holds the seal.
        at: Location,
        /// The reason.
        source: VerityError,
    },
    /// An image cannot be read.
    #[error("{at}: {source}")]
    Image {
        /// The image.
        at: Location,
        /// The reason.
        source: TreeError,
    },
    /// A directory or archive cannot be read, or has changed meanwhile. The reason names the place.
    #[error(transparent)]
    Scan(ScanError),
    /// There is no tree in the archive of a container image.
    #[error("{at}: {source}")]
    ImageArchive {
        /// The archive.
        at: Location,
        /// The reason.
        source: ImageArchiveError,
    },
    /// A romfs image cannot be built. The reason names the place.
    #[error(transparent)]
    BuildRomfs(RomfsError),
    /// An EROFS image cannot be built. The reason names the place.
    #[error(transparent)]
    BuildErofs(ErofsError),
    /// A volume cannot be used, made or changed.
    #[error("{at}: {source}")]
    Volume {
        /// The volume.
        at: Location,
        /// The reason.
        source: VolumeError,
    },
    /// It was ended before it was complete.
    #[error("{at}: interrupted")]
    Cancelled {
        /// What was read or made.
        at: Location,
    },
    /// A file exists that is to be replaced only if that is allowed explicitly.
    #[error("{at}: it exists and is {what}")]
    WouldReplace {
        /// The file.
        at: Location,
        /// Why it is kept.
        what: Precious,
    },
    /// The files of an image have more data than may be extracted.
    #[error(
        "{at}: up to here, the files have more than {limit} bytes: some may overlap in the image"
    )]
    TooLarge {
        /// The file with which they exceed it.
        at: Location,
        /// How many bytes may be written.
        limit: u64,
    },
    /// The directory that files are to be copied to is not empty.
    #[error("{at} is not empty")]
    NotEmpty {
        /// The directory.
        at: Location,
    },
    /// An image cannot be inside the directory that it is built from.
    #[error("{at}: the image cannot be inside the directory that it is built from")]
    InsideTree {
        /// The image.
        at: Location,
    },
    /// Everybody could read files in the image that not everybody may read in the directory.
    #[error(
        "{at}: the image would let everybody read files that not everybody may read here, {}",
        shown(.lost)
    )]
    WouldWiden {
        /// The directory.
        at: Location,
        /// The files.
        lost: Lost,
    },
    /// The image would lose something that it must not lose.
    #[error("{at}: {}", LossText { format, loss: *loss, lost })]
    Loses {
        /// The directory.
        at: Location,
        /// The name of the image's format.
        format: &'static str,
        /// What would be lost.
        loss: Loss,
        /// Where.
        lost: Lost,
    },
    /// The content was opened without verification, which is needed here.
    #[error("{at}: nothing of it is verified")]
    Unverified {
        /// The content.
        at: Location,
    },
    /// It is neither sealed nor an image nor a volume.
    #[error("{at} has no seal, at its end or beside it, and is neither an image nor a volume")]
    Unrecognised {
        /// The file.
        at: Location,
    },
    /// The file of a volume is smaller than its disk.
    #[error("{at} is a truncated volume: it has {size} bytes, and a disk of {disk}")]
    TruncatedVolume {
        /// The volume.
        at: Location,
        /// The size of its file in bytes.
        size: u64,
        /// The size of its disk in bytes.
        disk: u64,
    },
    /// A new volume with a separate data device needs the size of its file.
    #[error("{at} does not exist, and the size of its disk does not say how large to make it")]
    NoDataSize {
        /// The file that does not exist.
        at: Location,
    },
    /// A volume that is not a regular file cannot be extended.
    #[error("{at} is not a regular file: it cannot be extended")]
    CannotExtend {
        /// The volume.
        at: Location,
    },
    /// A volume cannot become smaller.
    #[error("{at} already has {size} bytes, and volumes cannot shrink")]
    CannotShrink {
        /// The volume.
        at: Location,
        /// The size of its file in bytes.
        size: u64,
    },
    /// The content is not an image.
    #[error("{at} is not an image")]
    NotAnImage {
        /// The content.
        at: Location,
    },
    /// There is no seal, where it could be verified against one.
    #[error("{at} has no seal at its end{}", beside(.sidecar))]
    NotSealed {
        /// The file.
        at: Location,
        /// The file beside it that could have held the seal, but does not exist.
        sidecar: Option<Location>,
    },
    /// A file that should hold a seal holds something else.
    #[error("{at} does not contain a seal")]
    NotASeal {
        /// The file that should hold the seal.
        at: Location,
    },
    /// A file that should hold a seal of fs-verity is a hash area of dm-verity, which a root hash
    /// is required for.
    #[error("{at} is a dm-verity hash area")]
    IsHashArea {
        /// The hash area.
        at: Location,
    },
    /// The image is pinned by a digest or root hash, which says nothing of its device.
    #[error("{at}: nothing says which content of this device is right")]
    UnpinnedDevice {
        /// The device.
        at: Location,
    },
    /// A file that should say where the hash area of a layer is says something else.
    #[error("{at} is not what containerd writes for a layer with dm-verity: {problem}")]
    NotALayerNote {
        /// The file.
        at: Location,
        /// What is wrong.
        problem: String,
    },
    /// There is no hash area, for which a root hash was given.
    #[error("{at} does not exist")]
    NoHashArea {
        /// The file that should hold the hash area.
        at: Location,
    },
    /// The data does not have the size that it had when it was sealed.
    #[error(
        "{at} {}: it has {actual} bytes, but {expected} according to its seal in {sidecar}",
        if actual < expected { "is truncated" } else { "was changed" }
    )]
    SizeChanged {
        /// The data.
        at: Location,
        /// The file with its seal.
        sidecar: Location,
        /// The size that was sealed, in bytes.
        expected: u64,
        /// The size of the data, in bytes.
        actual: u64,
    },
    /// Content in a registry cannot be opened, or does not have what its manifest says.
    #[cfg(feature = "remote")]
    #[error("{at}: {source}")]
    Layers {
        /// The content.
        at: Location,
        /// The reason.
        source: crate::registry::LayersError,
    },
    /// The location was to say which content is accepted, and does not.
    #[error("{at} does not say which digest the content has")]
    NotNamed {
        /// The content.
        at: Location,
    },
    /// The location says that the content is another one than required.
    #[error("{at} says that its content is {named}, but {expected} is required")]
    NamedOtherwise {
        /// The content.
        at: Location,
        /// What the location says.
        named: String,
        /// What is required.
        expected: String,
    },
    /// A digest or a key was given together with a root hash.
    #[error(
        "{at} can be checked with a seal of fs-verity, by digest or key, or with a tree of dm-verity, by root hash, \
         but not with both"
    )]
    PinsOfTwoSeals {
        /// The content.
        at: Location,
    },
    /// The hash area of a named image has another superblock than the name says.
    #[cfg(feature = "remote")]
    #[error(
        "{at}: the registry sends another superblock of dm-verity than was stored under this name"
    )]
    WrongSuperblock {
        /// The content.
        at: Location,
    },
    /// The name of an object is so long that its seal can have no name beside it.
    #[cfg(feature = "clouds")]
    #[error("{at}: its name is too long for a seal beside it")]
    NoSidecarName {
        /// The object.
        at: Location,
    },
    /// A file that was to be copied does not match its seal.
    #[error("{at} is damaged: it does not match its seal")]
    Damaged {
        /// The file.
        at: Location,
    },
    /// The hash area is for another number of data blocks than required.
    #[error("{at}: its hash area is for {actual} data blocks, not {expected}")]
    DataBlocks {
        /// The data.
        at: Location,
        /// The required number.
        expected: u64,
        /// The number in the superblock.
        actual: u64,
    },
}

impl Error {
    pub(crate) fn io(at: impl Into<Location>, source: io::Error) -> Self {
        let at = at.into();
        Self::Io { at, source }
    }

    pub(crate) fn scan(at: impl Into<Location>, source: ScanError) -> Self {
        match source {
            ScanError::Cancelled => Self::Cancelled { at: at.into() },
            source => Self::Scan(source),
        }
    }

    pub(crate) fn seal(at: impl Into<Location>, source: VerityError) -> Self {
        let at = at.into();
        match source {
            VerityError::Cancelled => Self::Cancelled { at },
            source => Self::Seal { at, source },
        }
    }

    pub(crate) fn volume(at: impl Into<Location>, source: VolumeError) -> Self {
        let at = at.into();
        match source {
            VolumeError::Cancelled => Self::Cancelled { at },
            source => Self::Volume { at, source },
        }
    }

    pub(crate) fn image(at: impl Into<Location>, source: TreeError) -> Self {
        let at = at.into();
        Self::Image { at, source }
    }
}

/// Why a file is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Precious {
    /// An image was to be made, and this is something else.
    NotAnImage,
    /// A seal was to be made, and this is something else.
    NotASeal,
    /// A seal was to be made, and this one is signed.
    SignedSeal,
    /// A volume was to be formatted, and there are bytes that are not zero.
    Bytes,
}

impl fmt::Display for Precious {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnImage => "not an image",
            Self::NotASeal => "not a seal",
            Self::SignedSeal => "signed",
            Self::Bytes => "not empty",
        })
    }
}

fn beside(sidecar: &Option<Location>) -> String {
    sidecar.as_ref().map_or_else(String::new, |sidecar| {
        format!(", and {sidecar} does not exist")
    })
}
