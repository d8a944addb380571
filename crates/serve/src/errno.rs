use std::io;

use rustix::io::Errno;
use verimount_integrity::Error as VolumeError;
use verimount_source::{ReadError, WriteError};

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
            errno(source)
        }
        // The first failure, such as a full storage, is the reason for all later ones.
        VolumeError::Latched(first) => volume_errno(first),
        _ => Errno::IO,
    }
}

/// The number of an error of a system call; `EIO` for any other error.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
