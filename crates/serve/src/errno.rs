use rustix::io::Errno;
use verimount_image::Error;
use verimount_source::ReadError;

/// What the kernel is told for each error: the only place where that is decided.
pub(crate) fn errno(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::NOENT,
        Error::NotADirectory => Errno::NOTDIR,
        Error::IsADirectory => Errno::ISDIR,
        Error::NoContent => Errno::INVAL,
        other => match other.read_error() {
            // The system's own reason says most; but an interrupted or a full system must not look
            // like anything else than a failed read.
            Some(ReadError::Io { source, .. }) => Errno::from_io_error(source).unwrap_or(Errno::IO),
            _ => Errno::IO,
        },
    }
}
