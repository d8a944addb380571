use std::io;

use verimount_erofs::BuildError as ErofsError;
use verimount_integrity::{Error as VolumeError, Usage};
#[cfg(feature = "remote")]
use verimount_remote::Error as RemoteError;
use verimount_romfs::Error as RomfsError;
use verimount_scan::{ArchiveError, Error as ScanError};
use verimount_source::ReadError;
use verimount_tree::Error as TreeError;
use verimount_verity::Error as VerityError;

use crate::Error;
#[cfg(feature = "remote")]
use crate::registry::LayersError;

/// What an error means for whoever has to do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The data is not what it should be: it is damaged, forged, not the version required, or not of the format
    /// required. Trying again does not help; other data does.
    BadData,
    /// The caller ended it.
    Cancelled,
    /// The work could not be done: the system, the network, a limit or the options prevented it. Nothing is
    /// known to be wrong with the data.
    Failed,
}

impl Error {
    /// What the error means.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => source.into(),
            Self::Seal { source, .. } => source.into(),
            Self::Image { source, .. } => source.into(),
            Self::Volume { source, .. } => source.into(),
            Self::Scan(error)
            | Self::BuildRomfs(RomfsError::Scan(error))
            | Self::BuildErofs(ErofsError::Scan(error)) => error.into(),
            #[cfg(feature = "remote")]
            Self::Layers { source, .. } => source.into(),
            #[cfg(feature = "remote")]
            Self::WrongSuperblock { .. } => ErrorKind::BadData,
            Self::Cancelled { .. } => ErrorKind::Cancelled,
            Self::Unrecognised { .. }
            | Self::TruncatedVolume { .. }
            | Self::NotAnImage { .. }
            | Self::NotSealed { .. }
            | Self::NotASeal { .. }
            | Self::NotALayerNote { .. }
            | Self::SizeChanged { .. }
            | Self::NamedOtherwise { .. }
            | Self::Damaged { .. }
            | Self::DataBlocks { .. } => ErrorKind::BadData,
            _ => ErrorKind::Failed,
        }
    }
}

impl From<&VerityError> for ErrorKind {
    fn from(error: &VerityError) -> Self {
        match error {
            VerityError::Source(error) => error.into(),
            VerityError::Cancelled => Self::Cancelled,
            VerityError::NotSealed
            | VerityError::Unfinished { .. }
            | VerityError::Corrupt(_)
            | VerityError::WrongDigest { .. }
            | VerityError::NoSuperblock
            | VerityError::WrongRootHash { .. }
            | VerityError::NotSigned
            | VerityError::WrongSignature(_) => Self::BadData,
            _ => Self::Failed,
        }
    }
}

impl From<&TreeError> for ErrorKind {
    fn from(error: &TreeError) -> Self {
        match error {
            TreeError::Corrupt(_) => Self::BadData,
            TreeError::Read(error) => error.into(),
            _ => Self::Failed,
        }
    }
}

impl From<&VolumeError> for ErrorKind {
    fn from(error: &VolumeError) -> Self {
        match error {
            VolumeError::Source(error) => error.into(),
            VolumeError::Latched(first) => (&**first).into(),
            VolumeError::Cancelled => Self::Cancelled,
            VolumeError::NotIntegrity
            | VolumeError::Corrupt(_)
            | VolumeError::TooSmall { .. }
            | VolumeError::Mismatch { .. }
            | VolumeError::Usage(Usage::NothingMatches) => Self::BadData,
            _ => Self::Failed,
        }
    }
}

impl From<&ScanError> for ErrorKind {
    fn from(error: &ScanError) -> Self {
        match error {
            ScanError::Unreadable { source, .. } => source.into(),
            ScanError::Archive {
                source: ArchiveError::Read(error),
                ..
            } => error.into(),
            ScanError::Archive { .. } | ScanError::Member { .. } => Self::BadData,
            ScanError::Cancelled => Self::Cancelled,
            _ => Self::Failed,
        }
    }
}

impl From<&ReadError> for ErrorKind {
    fn from(error: &ReadError) -> Self {
        match error {
            ReadError::Io { source, .. } => source.into(),
            _ => Self::BadData,
        }
    }
}

#[cfg(feature = "remote")]
impl From<&LayersError> for ErrorKind {
    fn from(error: &LayersError) -> Self {
        match error {
            LayersError::ManyLayers(_) => Self::Failed,
            _ => Self::BadData,
        }
    }
}

impl From<&io::Error> for ErrorKind {
    fn from(error: &io::Error) -> Self {
        match is_wrong_answer(error) {
            true => Self::BadData,
            false => Self::Failed,
        }
    }
}

/// Whether a server sends something else than what was asked for by its digest.
#[cfg(feature = "remote")]
fn is_wrong_answer(error: &io::Error) -> bool {
    let remote = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        remote,
        Some(
            RemoteError::WrongDigest { .. }
                | RemoteError::Manifest(_)
                | RemoteError::BlobSize { .. }
        )
    )
}

#[cfg(not(feature = "remote"))]
fn is_wrong_answer(_: &io::Error) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use verimount_source::WriteError;

    use super::*;

    #[test]
    fn what_is_wrong_is_found_below_what_failed() {
        let at = || "x".as_ref() as &std::path::Path;
        let io = |source| ReadError::Io {
            offset: 0,
            len: 1,
            source,
        };
        let rejected = || ReadError::Rejected("no match".into());
        let full = || WriteError::Flush(io::Error::other("full"));
        for (error, kind) in [
            (
                Error::io(at(), io::Error::other("failed")),
                ErrorKind::Failed,
            ),
            (
                Error::image(at(), io(io::Error::other("failed")).into()),
                ErrorKind::Failed,
            ),
            (Error::image(at(), rejected().into()), ErrorKind::BadData),
            (
                Error::image(at(), TreeError::unsupported("new")),
                ErrorKind::Failed,
            ),
            (Error::seal(at(), rejected().into()), ErrorKind::BadData),
            (
                Error::seal(at(), VerityError::Cancelled),
                ErrorKind::Cancelled,
            ),
            (
                Error::seal(at(), VerityError::Unsupported("it")),
                ErrorKind::Failed,
            ),
            (
                Error::volume(at(), VolumeError::Latched(VolumeError::from(full()).into())),
                ErrorKind::Failed,
            ),
            (
                Error::volume(at(), VolumeError::Latched(VolumeError::NotIntegrity.into())),
                ErrorKind::BadData,
            ),
            (
                Error::BuildErofs(ErofsError::Scan(ScanError::Archive {
                    path: "x".into(),
                    source: ArchiveError::Read(rejected()),
                })),
                ErrorKind::BadData,
            ),
        ] {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }

    #[cfg(feature = "remote")]
    #[test]
    fn a_server_that_does_not_answer_is_no_bad_data() {
        let unreachable = RemoteError::Unreachable("x".to_owned());
        let kind = |error: RemoteError| ErrorKind::from(&io::Error::from(error));
        assert_eq!(kind(unreachable), ErrorKind::Failed);
        let another_size = RemoteError::BlobSize {
            expected: 1,
            actual: 2,
        };
        assert_eq!(kind(another_size), ErrorKind::BadData);
    }
}
