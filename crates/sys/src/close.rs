use std::{
    io,
    os::fd::{IntoRawFd, OwnedFd},
};

/// Closes a file, and says what the file system has to say about it: those that write to elsewhere
/// tell only now what they could not write. It is closed in any case.
///
/// # Errors
/// Any that writing can have.
pub fn close(file: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor was owned, and with that nobody uses it any more.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
