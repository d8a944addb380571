//! What can fail. [`Error`] adds where, and what it means.

use std::{fmt, io};

use rustix::io::Errno;
pub(crate) use verimount_content::Fault as ContentFault;
use verimount_content::OtherFault;
use verimount_erofs::BuildError as ErofsError;
use verimount_models::{Differs, Error as ModelError, Uncovered};
use verimount_romfs::Error as RomfsError;
use verimount_scan::{Error as ScanError, Loss, Lost};
use verimount_tree::Error as TreeError;

use crate::{
    Error, ErrorKind, Location, LossText, error_kind, image_archive::ImageArchiveError,
    losses::shown,
};

/// What failed. The text continues the name of the file that it is about, and includes the texts of its causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// Content cannot be opened or read.
    #[error("{0}")]
    Content(#[from] ContentFault),
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
    /// Everything was to be fetched ahead, and nothing would keep it.
    #[error(": there is no cache that would keep what is fetched")]
    NoCache,
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
    /// It is neither sealed nor an image nor a volume.
    #[error(" has no seal, at its end or beside it, and is neither an image nor a volume")]
    Unrecognised,
    /// The content is not an image.
    #[error(" is not an image")]
    NotAnImage,
    /// The image is pinned by a digest or root hash, which says nothing of its device.
    #[error(": nothing says which content of this device is right")]
    UnpinnedDevice,
    /// The name of an object is so long that its seal can have no name beside it.
    #[error(": its name is too long for a seal beside it")]
    NoSidecarName,
    /// Nothing is copied to or from such a place, or under such a name.
    #[error("{0}")]
    WrongPlace(&'static str),
    /// A file that was to be copied does not match its seal.
    #[error(" is damaged: it does not match its seal")]
    Damaged,
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
}

impl Fault {
    /// The error that this happened to the file at `location`.
    pub(crate) fn at(self, location: impl Into<Location>) -> Error {
        self.into_content().at(location)
    }

    /// The error for a fault whose text names the place.
    pub(crate) fn somewhere(self) -> Error {
        self.into_content().somewhere()
    }

    fn into_content(self) -> ContentFault {
        match self {
            Self::Content(fault) => fault,
            other => ContentFault::Other(Box::new(other)),
        }
    }

    /// The error that a directory or archive cannot be scanned.
    pub(crate) fn scan(at: impl Into<Location>, reason: ScanError) -> Error {
        match reason {
            ScanError::Cancelled => ContentFault::Cancelled.at(at),
            reason => Self::Scan(reason).somewhere(),
        }
    }

    /// The error that a romfs image cannot be built.
    pub(crate) fn build_romfs(at: impl Into<Location>, reason: RomfsError) -> Error {
        match reason {
            RomfsError::Cancelled => ContentFault::Cancelled.at(at),
            RomfsError::Scan(reason) => Self::scan(at, reason),
            reason => Self::BuildRomfs(reason).somewhere(),
        }
    }

    /// The error that an EROFS image cannot be built.
    pub(crate) fn build_erofs(at: impl Into<Location>, reason: ErofsError) -> Error {
        match reason {
            ErofsError::Cancelled => ContentFault::Cancelled.at(at),
            ErofsError::Scan(reason) => Self::scan(at, reason),
            reason => Self::BuildErofs(reason).somewhere(),
        }
    }
}

impl OtherFault for Fault {
    fn kind(&self) -> ErrorKind {
        error_kind::of(self)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Content(error.into())
    }
}

impl From<TreeError> for Fault {
    fn from(error: TreeError) -> Self {
        Self::Content(error.into())
    }
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        Self::Content(error.into())
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
}

impl fmt::Display for Precious {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAnImage => "not an image",
            Self::NotASeal => "not a seal",
            Self::SignedSeal => "signed",
        })
    }
}

fn differs(differs: &Option<Differs>) -> String {
    match differs {
        Some(differs) => differs.to_string(),
        None => "it changed while it was read".to_owned(),
    }
}
