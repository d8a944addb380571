use std::{io, process};

use crate::checked::checked;

/// Ends this process by a signal that ends processes by default, whatever handler it has.
///
/// The C library's own way to send itself a signal sends it to a thread. A sandbox can allow a process to signal itself,
/// but not its own threads only.
///
/// # Errors
/// The system's error, such as `EINVAL` for what is no signal. After a signal that is blocked, or ends nothing, it goes on.
pub fn end_by(signal: i32) -> io::Result<()> {
    // SAFETY: the default action of a signal is not a handler, so nothing is called by it.
    if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call touches no memory.
    checked(unsafe { libc::kill(process::id().cast_signed(), signal) }).map(drop)
}
