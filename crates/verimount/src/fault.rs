//! What can fail. [`Error`] adds where, and what it means.

use std::{fmt, io};

use rustix::io::Errno;
use verimount_erofs::BuildError as ErofsError;
use verimount_integrity::Error as VolumeError;
use verimount_models::{Differs, Error as ModelError, Uncovered};
use verimount_mount::MountError;
use verimount_romfs::Error as RomfsError;
use verimount_scan::{Error as ScanError, InvalidPattern, Loss, Lost};
use verimount_serve::ResidentError;
use verimount_source::ReadError;
use verimount_tree::Error as TreeError;
use verimount_verity::Error as VerityError;

use crate::{
    Error, Location, LossText, image_archive::ImageArchiveError, layers_error::LayersError,
    losses::shown,
};

/// What failed. The text continues the name of the file that it is about, and includes the texts of its causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The system refused or failed it.
    #[error(": {0}")]
    Io(#[from] io::Error),
    /// What is to be copied cannot be read.
    #[error(": {0}")]
    Read(ReadError),
    /// A seal cannot be used, made or changed, or does not have the digest or root hash required.
    #[error(": {0}")]
    Seal(VerityError),
    /// An image, or a file in it, cannot be read.
    #[error(": {0}")]
    Image(#[from] TreeError),
    /// The content of a file was wanted as text.
    #[error(": it is not text in UTF-8")]
    NotText,
    /// A directory or archive cannot be read, or has changed meanwhile. The reason names the place.
    #[error("{0}")]
    Scan(ScanError),
    /// There is no tree in the archive of a container image.
    #[error(": {0}")]
    ImageArchive(ImageArchiveError),
    /// A romfs image cannot be built. The reason names the place.
    #[error("{0}")]
    BuildRomfs(RomfsError),
    /// An EROFS image cannot be built. The reason names the place.
    #[error("{0}")]
    BuildErofs(ErofsError),
    /// A volume cannot be used, made or changed.
    #[error(": {0}")]
    Volume(VolumeError),
    /// It cannot be mounted. The reason names the mount point.
    #[error("{0}")]
    Mount(MountError),
    /// Permissions were to be replaced that the files have in the image.
    #[error(": its files have permissions of their own, which no umask replaces")]
    PermissionsStored,
    /// There is no memory for files that are to be resident. The reason says so.
    #[error("{0}")]
    ResidentMemory(ResidentError),
    /// A pattern of files that are to be resident is invalid.
    #[error("{0}")]
    ResidentPattern(InvalidPattern),
    /// No file is to be resident.
    #[error(
        ": no file with content is to be resident: a pattern is of whole paths, such as **/*.bin"
    )]
    NothingResident,
    /// Everything was to be fetched ahead, and nothing would keep it.
    #[error(": there is no cache that would keep what is fetched")]
    NoCache,
    /// It was ended before it was complete.
    #[error(": interrupted")]
    Cancelled,
    /// A file exists that is to be replaced only if that is allowed explicitly.
    #[error(": it exists and is {0}")]
    WouldReplace(Precious),
    /// The files of an image have more data than may be extracted.
    #[error(": up to here, the files have more than {limit} bytes: some may overlap in the image")]
    TooLarge {
        /// How many bytes may be written.
        limit: u64,
    },
    /// The directory that files are to be copied to has files in it.
    #[error(" is not empty")]
    NotEmpty,
    /// An image is to be made inside the directory that it is built from.
    #[error(": the image cannot be inside the directory that it is built from")]
    InsideTree,
    /// Everybody could read files in the image that not everybody may read in the directory.
    #[error(
        ": the image would let everybody read files that not everybody may read here, {}",
        shown(.0)
    )]
    WouldWiden(Lost),
    /// The image would lose something that it must not lose.
    #[error(": {}", LossText { format, loss: *loss, lost })]
    WouldLose {
        /// The name of the image's format.
        format: &'static str,
        /// What would be lost.
        loss: Loss,
        /// Where.
        lost: Lost,
    },
    /// The content was opened without verification, which is needed here.
    #[error(": nothing of it is verified")]
    Unverified,
    /// The content is in too many places.
    #[error(": there can be at most {most} mirrors of it")]
    TooManyMirrors {
        /// How many there can be.
        most: usize,
    },
    /// It is neither sealed nor an image nor a volume.
    #[error(" has no seal, at its end or beside it, and is neither an image nor a volume")]
    Unrecognised,
    /// The file of a volume is smaller than its disk.
    #[error(" is a truncated volume: it has {size} bytes, and a disk of {disk}")]
    TruncatedVolume {
        /// The size of its file in bytes.
        size: u64,
        /// The size of its disk in bytes.
        disk: u64,
    },
    /// A new volume with a separate data device needs the size of its file.
    #[error(" does not exist, and the size of its disk does not say how large to make it")]
    NoDataSize,
    /// A volume that is not a regular file cannot be extended.
    #[error(" is not a regular file: it cannot be extended")]
    CannotExtend,
    /// A volume cannot become smaller.
    #[error(" already has {size} bytes, and volumes cannot shrink")]
    CannotShrink {
        /// The size of its file in bytes.
        size: u64,
    },
    /// The content is not an image.
    #[error(" is not an image")]
    NotAnImage,
    /// There is no seal, where it could be verified against one.
    #[error(" has no seal at its end{}", beside(.sidecar))]
    NotSealed {
        /// The file beside it that could have held the seal, but does not exist.
        sidecar: Option<Location>,
    },
    /// A file that should hold a seal holds something else.
    #[error(" does not contain a seal")]
    NotASeal,
    /// A file that should hold a seal of fs-verity is a hash area of dm-verity, which a root hash
    /// is required for.
    #[error(" is a dm-verity hash area")]
    IsHashArea,
    /// The image is pinned by a digest or root hash, which says nothing of its device.
    #[error(": nothing says which content of this device is right")]
    UnpinnedDevice,
    /// A file that should say where the hash area of a layer is says something else.
    #[error(" is not what containerd writes for a layer with dm-verity: {0}")]
    NotALayerNote(String),
    /// There is no hash area, for which a root hash was given.
    #[error(" does not exist")]
    NoHashArea,
    /// The data does not have the size that it had when it was sealed.
    #[error(
        " {}: it has {actual} bytes, but {expected} according to its seal in {sidecar}",
        if actual < expected { "is truncated" } else { "was changed" }
    )]
    SizeChanged {
        /// The file with its seal.
        sidecar: Location,
        /// The size that was sealed, in bytes.
        expected: u64,
        /// The size of the data, in bytes.
        actual: u64,
    },
    /// Content in a registry cannot be opened, or does not have what its manifest says.
    #[error(": {0}")]
    Layers(LayersError),
    /// The location was to say which content is accepted, and does not.
    #[error(" does not say which digest the content has")]
    NotNamed,
    /// The location says that the content is another one than required.
    #[error(" says that its content is {named}, but {expected} is required")]
    NamedOtherwise {
        /// What the location says.
        named: String,
        /// What is required.
        expected: String,
    },
    /// A digest or a key was given together with a root hash.
    #[error(
        " can be checked with a seal of fs-verity, by digest or key, or with a tree of dm-verity, by root hash, \
         but not with both"
    )]
    PinsOfTwoSeals,
    /// A digest, key or root hash was given, and it was said that none is needed.
    #[error(" cannot be opened both with and without a digest, key or root hash")]
    PinnedAndNot,
    /// The hash area of a named image has another superblock than the name says.
    #[error(": the registry sends another superblock of dm-verity than was stored under this name")]
    WrongSuperblock,
    /// The name of an object is so long that its seal can have no name beside it.
    #[error(": its name is too long for a seal beside it")]
    NoSidecarName,
    /// Nothing is copied to or from such a place, or under such a name.
    #[error("{0}")]
    WrongPlace(&'static str),
    /// A file that was to be copied does not match its seal.
    #[error(" is damaged: it does not match its seal")]
    Damaged,
    /// The hash area is for another number of data blocks than required.
    #[error(": its hash area is for {actual} data blocks, not {expected}")]
    DataBlocks {
        /// The required number.
        expected: u64,
        /// The number in the superblock.
        actual: u64,
    },
    /// A model signature cannot be used, or was made with another key.
    #[error(": {0}")]
    ModelSignature(ModelError),
    /// A model and its signature do not have the same files. The reason names the file.
    #[error(": {0}")]
    Uncovered(Uncovered),
    /// The content of a file is not what is signed, or what its blob is named by. `None` if there are bytes where the
    /// scan found a hole.
    #[error(": {}", differs(.0))]
    Differs(Option<Differs>),
    /// A file is not a link to a blob of Hugging Face that is named by its digest.
    #[error(": it is not a link to a blob of Hugging Face, which is named by its digest")]
    NotABlob,
    /// The signature is of one file, and there is a directory.
    #[error(": the model signature is of one file, not of a directory")]
    SignedFile,
    /// The signature is of a directory, and there is one file.
    #[error(": the model signature is of a directory, not of one file")]
    SignedDirectory,
    /// A tree is to be appended to a file whose content is compared with a signature.
    #[error(": a tree cannot be appended to what is compared with a model signature")]
    SignedAppend,
    /// An image keeps no model signature.
    #[error(": the image has no model signature: it was not built with one")]
    NoModelSignature,
    /// An option needs a directory, and this is an archive.
    #[error(": {0} in directories only, not in archives and container images")]
    NotADirectory(&'static str),
    /// An argument is not a location.
    #[error("{0}")]
    Location(crate::LocationError),
}

impl Fault {
    /// The error that this happened to the file at `location`.
    pub(crate) fn at(self, location: impl Into<Location>) -> Error {
        Error::new(Some(location.into()), self)
    }

    /// The error for a fault whose text names the place.
    pub(crate) fn somewhere(self) -> Error {
        Error::new(None, self)
    }
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Why a file is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precious {
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

fn differs(differs: &Option<Differs>) -> String {
    match differs {
        Some(differs) => differs.to_string(),
        None => "it changed while it was read".to_owned(),
    }
}

fn beside(sidecar: &Option<Location>) -> String {
    sidecar.as_ref().map_or_else(String::new, |sidecar| {
        format!(", and {sidecar} does not exist")
    })
}
