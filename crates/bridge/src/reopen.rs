use std::{
    ops::Deref,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};

/// A path to the very file that a descriptor is of, whatever its name: for system calls that take
/// no descriptors that are paths only. It must be followed, even to a symbolic link.
///
/// It borrows the descriptor: closed, its number could soon be another file's.
pub(crate) struct PathTo<'file> {
    path: String,
    _file: BorrowedFd<'file>,
}

impl<'file> PathTo<'file> {
    pub(crate) fn new(file: &'file impl AsFd) -> Self {
        let file = file.as_fd();
        Self {
            path: format!("/proc/self/fd/{}", file.as_raw_fd()),
            _file: file,
        }
    }
}

impl Deref for PathTo<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.path
    }
}

/// Opens the content of the very file that a descriptor is of.
///
/// Not for appending, even if the flags say so: that is a matter of each write, as the user may
/// switch it off, and pages that were mapped are written where they belong. But a file that may
/// only be appended to cannot be opened otherwise.
pub(crate) fn reopen_content(file: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    match reopen(&file, flags.difference(OFlags::APPEND)) {
        Err(Errno::PERM) if flags.contains(OFlags::APPEND) => reopen(&file, flags),
        opened => opened,
    }
}

/// Opens the very file that a descriptor is of once more.
pub(crate) fn reopen(file: &impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    openat(CWD, &*PathTo::new(file), flags, Mode::empty())
}
