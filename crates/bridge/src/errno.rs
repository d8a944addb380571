use std::io;

use rustix::io::Errno;

/// The number of an error that a system call gave; `EIO` for one that none did.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
