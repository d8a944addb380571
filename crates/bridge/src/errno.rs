use std::io;

use rustix::io::Errno;

/// The number of an error of a system call; `EIO` for any other error.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
