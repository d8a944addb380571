//! What can fail when an image is built or compared with what somebody signed.

use verimount_content::OtherFault;
use verimount_models::{Differs, Error as ModelError, Uncovered};
use verimount_scan::{ArchiveError, BuildError, Error as ScanError, Loss};
use verimount_tree::Lost;

use crate::{
    Error, ErrorKind, Location, LossText, fault::ContentFault, image_archive::ImageArchiveError,
};

/// What failed. The text continues the name of the file that it is about, and includes the texts of its causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildFault {
    /// A directory or archive cannot be read, or has changed meanwhile. The reason names the place.
    #[error(transparent)]
    Scan(ScanError),
    /// There is no tree in the archive of a container image.
    #[error(": {0}")]
    ImageArchive(#[source] ImageArchiveError),
    /// An image cannot be built. The reason names the place.
    #[error(transparent)]
    Build(BuildError),
    /// An image is to be made inside the directory that it is built from.
    #[error(": the image cannot be inside the directory that it is built from")]
    InsideTree,
    /// Everybody could read files in the image that not everybody may read in the directory.
    #[error(
        ": the image would let everybody read files that not everybody may read here, {}",
        .0
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
    /// A model signature cannot be used, or was made with another key.
    #[error(": {0}")]
    ModelSignature(#[source] ModelError),
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
    /// An image keeps no model signature.
    #[error(": the image has no model signature: it was not built with one")]
    NoModelSignature,
    /// An option needs a directory, and this is an archive.
    #[error(": {0} in directories only, not in archives and container images")]
    NotADirectory(&'static str),
}

impl BuildFault {
    /// The error that this happened to the file at `location`.
    pub(crate) fn at(self, location: impl Into<Location>) -> Error {
        ContentFault::from(self).at(location)
    }

    /// The error for a fault whose text names the place.
    pub(crate) fn somewhere(self) -> Error {
        ContentFault::from(self).somewhere()
    }

    /// The error that a directory or archive cannot be scanned.
    pub(crate) fn scan(at: impl Into<Location>, reason: ScanError) -> Error {
        match reason {
            ScanError::Cancelled => ContentFault::Cancelled.at(at),
            reason => Self::Scan(reason).somewhere(),
        }
    }

    /// The error that an image cannot be built.
    pub(crate) fn build(at: impl Into<Location>, reason: BuildError) -> Error {
        match reason {
            BuildError::Cancelled => ContentFault::Cancelled.at(at),
            BuildError::Scan(reason) => Self::scan(at, reason),
            reason => Self::Build(reason).somewhere(),
        }
    }
}

impl OtherFault for BuildFault {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Scan(error) | Self::Build(BuildError::Scan(error)) => of_scan(error),
            Self::Build(_) => ErrorKind::Unsupported,
            Self::ModelSignature(error) => of_model(error),
            Self::Uncovered(_) | Self::Differs(_) | Self::NotABlob | Self::NoModelSignature => {
                ErrorKind::WrongModel
            }
            Self::ImageArchive(ImageArchiveError::WrongDigest { .. }) => ErrorKind::Corrupt,
            Self::ImageArchive(ImageArchiveError::UnknownDigest(_)) => ErrorKind::Unsupported,
            Self::ImageArchive(_) => ErrorKind::NotOneImage,
            Self::WouldWiden(_) => ErrorKind::WouldWiden,
            Self::WouldLose { .. } => ErrorKind::WouldLose,
            Self::InsideTree
            | Self::SignedFile
            | Self::SignedDirectory
            | Self::NotADirectory(_) => ErrorKind::InvalidInput,
        }
    }
}

fn of_scan(error: &ScanError) -> ErrorKind {
    match error {
        ScanError::Unreadable { source, .. } => source.into(),
        ScanError::Archive {
            source: ArchiveError::Read(error),
            ..
        } => error.into(),
        ScanError::Archive { .. } | ScanError::Member { .. } => ErrorKind::Corrupt,
        ScanError::Link { .. } | ScanError::Taken { .. } => ErrorKind::InvalidInput,
        ScanError::Cancelled => ErrorKind::Cancelled,
        _ => ErrorKind::Unsupported,
    }
}

fn of_model(error: &ModelError) -> ErrorKind {
    match error {
        ModelError::WrongKey => ErrorKind::WrongModel,
        ModelError::NotABundle(_) => ErrorKind::WrongFormat,
        ModelError::Inconsistent(_) => ErrorKind::Corrupt,
        ModelError::Unsupported(_) => ErrorKind::Unsupported,
        _ => ErrorKind::InvalidInput,
    }
}

fn differs(differs: &Option<Differs>) -> String {
    match differs {
        Some(differs) => differs.to_string(),
        None => "it changed while it was read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{io, path::Path};

    use rustix::io::Errno;
    use verimount_source::ReadError;

    use super::*;
    use crate::fault::ContentFault;

    #[test]
    fn what_is_wrong_is_found_below_what_failed() {
        let rejected = ReadError::Rejected("no match".into());
        let scan = ScanError::Archive {
            path: "x".into(),
            source: ArchiveError::Read(rejected),
        };
        let at: &Path = "x".as_ref();
        let error = BuildFault::build(at, BuildError::Scan(scan));
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.errno(), Errno::IO.raw_os_error(), "{error}");
        let wrapped = ContentFault::io(at, io::Error::other(error));
        assert_eq!(wrapped.kind(), ErrorKind::Corrupt, "{wrapped}");
    }
}
