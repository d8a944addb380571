use std::io;

use rustix::io::Errno;
use verimount_integrity::Error as VolumeError;
use verimount_source::{ReadError, WriteError};
use verimount_tree::Error;

/// The error number for each error of a tree. No other code maps them.
pub(crate) fn errno(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::NOENT,
        Error::NotADirectory => Errno::NOTDIR,
        Error::IsADirectory => Errno::ISDIR,
        Error::NoContent | Error::NotASymlink => Errno::INVAL,
        Error::NoAttribute => Errno::NODATA,
        Error::PastEnd => Errno::NXIO,
        other => match other.read_error() {
            // The system's error says most. Without one, it is an ordinary failed read.
            Some(ReadError::Io { source, .. }) => system(source),
            _ => Errno::IO,
        },
    }
}

/// The error number for a failed request to a volume. The volume itself logs mismatches, and failures
/// that end writing.
pub(crate) fn volume_failed(error: &VolumeError) -> Errno {
    if let VolumeError::Source(error) = error {
        tracing::error!(%error, "the storage cannot be read");
    }
    volume_errno(error)
}

fn volume_errno(error: &VolumeError) -> Errno {
    match error {
        VolumeError::ReadOnly => Errno::ROFS,
        VolumeError::PastEnd { .. } => Errno::INVAL,
        VolumeError::DiscardNotAllowed => Errno::OPNOTSUPP,
        VolumeError::Source(ReadError::Io { source, .. })
        | VolumeError::Write(WriteError::Io { source, .. } | WriteError::Flush(source)) => {
            system(source)
        }
        // The first failure, such as a full storage, is the reason for all later ones.
        VolumeError::Latched(first) => volume_errno(first),
        _ => Errno::IO,
    }
}

fn system(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
