//! A file that was made. Its attributes are changed through a descriptor, whatever becomes of its name.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    ops::Deref,
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::MetadataExt,
    },
};

use rustix::{
    fs::{
        AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, fchmod,
        fsetxattr, openat, setxattr, utimensat,
    },
    io::Errno,
};
use verimount_tree::{FileType, Timestamp};

use super::was_replaced;

/// What tells the type of a file in its mode.
const TYPE: u32 = 0o170_000;

/// A file of any type: opened for writing, or only as a place (`O_PATH`).
pub(super) struct NewFile(pub(super) File);

impl Deref for NewFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl NewFile {
    /// Makes a regular file that only the caller can access.
    pub(super) fn create(directory: impl AsFd, name: &OsStr) -> io::Result<Self> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self(file.into()))
    }

    /// A file of another type that was just made under this name. Fails if it was replaced: it would have
    /// another type, or another name elsewhere.
    pub(super) fn find(
        directory: impl AsFd,
        name: &OsStr,
        file_type: FileType,
    ) -> io::Result<Self> {
        let found = Self::place(directory, name)?;
        let metadata = found.metadata()?;
        if metadata.mode() & TYPE == file_type.mode_bits() && metadata.nlink() == 1 {
            Ok(found)
        } else {
            Err(was_replaced())
        }
    }

    /// Whatever has this name.
    pub(super) fn place(directory: impl AsFd, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(directory, name, flags, Mode::empty())?.into()))
    }

    /// Changes owner and group, or only one of them.
    pub(super) fn set_owner(&self, owner: Option<Uid>, group: Option<Gid>) -> Result<(), Errno> {
        chownat(&self.0, "", owner, group, AtFlags::EMPTY_PATH)
    }

    /// Changes all twelve bits of the mode.
    pub(super) fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode);
        match fchmod(&self.0, mode) {
            // It is only a place.
            Err(Errno::BADF) => chmod(self.path(), mode),
            other => other,
        }
    }

    /// Sets an extended attribute.
    pub(super) fn set_xattr(&self, name: &OsStr, value: &[u8]) -> Result<(), Errno> {
        let flags = XattrFlags::empty();
        match fsetxattr(&self.0, name, value, flags) {
            // It is only a place.
            Err(Errno::BADF) => setxattr(self.path(), name, value, flags),
            other => other,
        }
    }

    /// Sets the times of the last access and modification.
    pub(super) fn set_times(&self, accessed: Timestamp, modified: Timestamp) -> Result<(), Errno> {
        let spec = |time: Timestamp| Timespec {
            tv_sec: time.seconds(),
            tv_nsec: time.nanoseconds().into(),
        };
        let times = Timestamps {
            last_access: spec(accessed),
            last_modification: spec(modified),
        };
        utimensat(&self.0, "", &times, AtFlags::EMPTY_PATH)
    }

    /// A path that leads to this file, and if it is a symbolic link not behind it.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}
