use fuser::Errno;
use verimount_image::Error;
use verimount_source::ReadError;

/// What the kernel is told for each error: the only place where that is decided.
pub(crate) fn errno(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::ENOENT,
        Error::NotADirectory => Errno::ENOTDIR,
        Error::IsADirectory => Errno::EISDIR,
        Error::NoContent => Errno::EINVAL,
        other => match other.read_error() {
            // The system's own reason says most; but an interrupted or a full system must not look
            // like anything else than a failed read.
            Some(ReadError::Io { source, .. }) => {
                source.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
            }
            _ => Errno::EIO,
        },
    }
}
