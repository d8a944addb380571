use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use crate::checked::checked;

/// # Safety
/// `argument` points to the memory that `command` reads or writes.
pub(crate) unsafe fn ioctl(
    file: impl AsFd,
    command: u32,
    argument: *const libc::c_void,
) -> io::Result<i32> {
    // SAFETY: the caller guarantees the argument; the descriptor is borrowed, so it stays open.
    checked(unsafe { libc::ioctl(file.as_fd().as_raw_fd(), command as libc::Ioctl, argument) })
}
