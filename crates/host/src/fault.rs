//! What can fail besides what fails with content. [`Error`] adds where, and what it means.

use std::io;

use verimount::{Error, ErrorKind, Location};
use verimount_content::OtherFault;
use verimount_integrity::{Error as VolumeError, Usage};
use verimount_mount::MountError;
use verimount_scan::InvalidPattern;
use verimount_serve::ResidentError;
use verimount_source::{ReadError, WriteError};

pub(crate) use verimount_content::Fault as ContentFault;

/// What failed. The text continues the name of the file that it is about, and includes the texts of its causes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// A volume cannot be used, made or changed.
    #[error(": {0}")]
    Volume(#[source] VolumeError),
    /// It cannot be mounted. The reason names the mount point.
    #[error(transparent)]
    Mount(MountError),
    /// Permissions were to be replaced that the files have in the image.
    #[error(": its files have permissions of their own, which no umask replaces")]
    PermissionsStored,
    /// The kernel was to read an image itself, and a mount that is served would show less, or otherwise.
    #[error(
        ": native mounts are for all users, of pinned images without further devices, as they are stored"
    )]
    NotNative,
    /// There is no memory for files that are to be resident. The reason says so.
    #[error(transparent)]
    ResidentMemory(ResidentError),
    /// A pattern of files that are to be resident is invalid.
    #[error(transparent)]
    ResidentPattern(InvalidPattern),
    /// No file is to be resident.
    #[error(
        ": no file with content is to be resident: a pattern is of whole paths, such as **/*.bin"
    )]
    NothingResident,
    /// A volume was to be formatted, and there are bytes that are not zero.
    #[error(": it exists and is not empty")]
    NotZero,
    /// The file of a volume is smaller than its disk.
    #[error(" is a truncated volume: it has {size} bytes, and a disk of {disk}")]
    Truncated {
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
}

impl Fault {
    /// The error that this happened to the file at `location`.
    pub(crate) fn at(self, location: impl Into<Location>) -> Error {
        ContentFault::Other(Box::new(self)).at(location)
    }

    /// The error for a fault whose text names the place.
    pub(crate) fn somewhere(self) -> Error {
        ContentFault::Other(Box::new(self)).somewhere()
    }

    /// The error that a volume cannot be used.
    pub(crate) fn volume(at: impl Into<Location>, reason: VolumeError) -> Error {
        match reason {
            VolumeError::Cancelled => ContentFault::Cancelled.at(at),
            reason => Self::Volume(reason).at(at),
        }
    }
}

impl OtherFault for Fault {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Volume(error) => of_volume(error),
            Self::Mount(error) => of_mount(error),
            Self::ResidentMemory(error) => of_resident(error),
            Self::NotZero => ErrorKind::WouldReplace,
            Self::Truncated { .. } => ErrorKind::Corrupt,
            Self::NoDataSize => ErrorKind::NoSize,
            Self::PermissionsStored
            | Self::NotNative
            | Self::ResidentPattern(_)
            | Self::NothingResident
            | Self::CannotExtend
            | Self::CannotShrink { .. } => ErrorKind::InvalidInput,
        }
    }

    fn failed_read(&self) -> Option<&ReadError> {
        match self {
            Self::Volume(VolumeError::Source(error)) => Some(error),
            _ => None,
        }
    }
}

/// What an error of a volume means.
pub fn of_volume(error: &VolumeError) -> ErrorKind {
    match error {
        VolumeError::Source(error) => error.into(),
        VolumeError::Write(WriteError::Io { source, .. } | WriteError::Flush(source)) => {
            source.into()
        }
        VolumeError::Latched(first) => of_volume(first),
        VolumeError::Cancelled => ErrorKind::Cancelled,
        VolumeError::NotIntegrity => ErrorKind::WrongFormat,
        VolumeError::Corrupt(_) | VolumeError::TooSmall { .. } | VolumeError::Mismatch { .. } => {
            ErrorKind::Corrupt
        }
        VolumeError::Usage(Usage::NothingMatches | Usage::HeaderMismatch) => {
            ErrorKind::WrongContent
        }
        VolumeError::Unsupported(_) => ErrorKind::Unsupported,
        VolumeError::Usage(_) | VolumeError::Param(_) => ErrorKind::InvalidInput,
        _ => ErrorKind::Io,
    }
}

fn of_mount(error: &MountError) -> ErrorKind {
    match error {
        MountError::MountPoint { reason, .. }
        | MountError::Refused { reason, .. }
        | MountError::Awake(reason) => reason.into(),
        MountError::Native { reason, .. } if reason.kind() == io::ErrorKind::PermissionDenied => {
            ErrorKind::PermissionDenied
        }
        MountError::Native { .. } => ErrorKind::Unsupported,
        MountError::AlreadyMounted(_) => ErrorKind::Busy,
        MountError::NotRoot => ErrorKind::PermissionDenied,
        MountError::NotADirectory(_) | MountError::NotEmpty(_) => ErrorKind::InvalidInput,
        _ => ErrorKind::Io,
    }
}

fn of_resident(error: &ResidentError) -> ErrorKind {
    match error {
        ResidentError::NotPermitted(_) => ErrorKind::PermissionDenied,
        ResidentError::Refused(reason) => reason.into(),
        _ => ErrorKind::InvalidInput,
    }
}

#[cfg(test)]
mod tests {
    use std::{io, path::Path};

    use rustix::io::Errno;

    use super::*;

    #[test]
    fn what_is_wrong_is_found_below_what_failed() {
        let at: &Path = "x".as_ref();
        let full = WriteError::Flush(Errno::NOSPC.into());
        for (first, kind, errno) in [
            (full.into(), ErrorKind::Io, Errno::IO),
            (
                VolumeError::NotIntegrity,
                ErrorKind::WrongFormat,
                Errno::INVAL,
            ),
        ] {
            let error = Fault::volume(at, VolumeError::Latched(first.into()));
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.errno(), errno.raw_os_error(), "{error}");
            let wrapped = ContentFault::io(at, io::Error::other(error));
            assert_eq!(wrapped.kind(), kind, "{wrapped}");
        }
    }
}
