use std::io;

use rustix::io::Errno;
use verimount_integrity::Error as VolumeError;
use verimount_source::{ReadError, WriteError};
use verimount_tree::Error;

/// What the kernel is told for each error: the only place where that is decided.
pub(crate) fn errno(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::NOENT,
        Error::NotADirectory => Errno::NOTDIR,
        Error::IsADirectory => Errno::ISDIR,
        Error::NoContent | Error::NotASymlink => Errno::INVAL,
        Error::NoAttribute => Errno::NODATA,
        Error::PastEnd => Errno::NXIO,
        other => match other.read_error() {
            // The system's own reason says most; but an interrupted or a full system must not look
            // like anything else than a failed read.
            Some(ReadError::Io { source, .. }) => system(source),
            _ => Errno::IO,
        },
    }
}

/// What whoever asked is told of a request to a volume that failed. What does not match, and what ends
/// all writing, the volume has logged itself.
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
        // That the storage was full, say, is true of all that come after it.
        VolumeError::Latched(first) => volume_errno(first),
        _ => Errno::IO,
    }
}

fn system(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
