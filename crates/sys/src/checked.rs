use std::io;

/// What a system call returned, which is -1 if it failed; `errno` then says why.
///
/// # Errors
/// The system's, if it failed.
pub(crate) fn checked<N: From<i8> + PartialEq>(returned: N) -> io::Result<N> {
    if returned == N::from(-1) {
        Err(io::Error::last_os_error())
    } else {
        Ok(returned)
    }
}
