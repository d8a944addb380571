use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};

/// A path to the very file that a descriptor is of, whatever its name: for system calls that take
/// no descriptors that are paths only. It must be followed, even to a symbolic link.
pub(crate) fn path_to(file: impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

/// Opens the very file that a descriptor is of once more.
pub(crate) fn reopen(file: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(CWD, path_to(file), flags | OFlags::CLOEXEC, Mode::empty())
}
