use std::{
    ops::Deref,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::Errno,
};

/// A path to the file of a descriptor, independent of its name, for system calls that do not accept
/// `O_PATH` descriptors. The path itself is a symbolic link that must be followed.
///
/// It borrows the descriptor: after closing, the number could be that of another file.
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

/// Opens the content of a descriptor's file.
///
/// Drops `O_APPEND`: each write decides whether it appends, as the user may switch the flag off,
/// and mapped pages are written to their own offsets. An append-only file is an exception, since it
/// cannot be opened otherwise.
pub(crate) fn reopen_content(file: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    match reopen(&file, flags.difference(OFlags::APPEND)) {
        Err(Errno::PERM) if flags.contains(OFlags::APPEND) => reopen(&file, flags),
        opened => opened,
    }
}

/// Opens a descriptor's file again.
pub(crate) fn reopen(file: &impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    openat(CWD, &*PathTo::new(file), flags, Mode::empty())
}
