use std::{
    ffi::OsStr,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{FileType, Mode, OFlags, makedev, mkdirat, mknodat, openat, symlinkat},
    io::Errno,
};

use verimount_fuse::device_parts;

use super::{Entry, Mirror, act::Changed};
use crate::{
    Caller, NewFile, NodeId,
    file::{OpenFile, passed_on},
    name::Name,
    table::Location,
};

/// Operations that create files.
impl Mirror {
    /// Creates and opens a regular file.
    ///
    /// # Errors
    /// If the name is taken, `EEXIST` with `O_EXCL`, else `ESTALE`: the kernel requests this only
    /// for a name that it believes to be free, so it has not checked whether the caller may open the
    /// existing file. After `ESTALE`, it looks the name up again.
    pub fn create(
        &self,
        parent: NodeId,
        name: &OsStr,
        new: NewFile,
        flags: OFlags,
    ) -> Result<(Entry, OpenFile), Errno> {
        let name = Name::new(name)?;
        let directory = self.descriptor(parent)?;
        let create = new_content(flags) | OFlags::CREATE | OFlags::EXCL;
        let file = self.make(new, &directory, |mode| {
            openat(&directory, name.as_os_str(), create, mode)
        });
        let file = file.map_err(|errno| match errno {
            Errno::EXIST if !flags.contains(OFlags::EXCL) => Errno::STALE,
            errno => errno,
        })?;
        let entry = self.remember(self.source.examine_open(&file)?, parent, name)?;
        Ok((entry, self.opened(entry.node, passed_on(flags), file)))
    }

    /// Creates and opens a regular file without a name in the file system of a directory. It can be
    /// linked later, unless the flags have `O_EXCL`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the file system does not support this, and any other.
    pub fn tmpfile(
        &self,
        parent: NodeId,
        new: NewFile,
        flags: OFlags,
    ) -> Result<(Entry, OpenFile), Errno> {
        let directory = self.descriptor(parent)?;
        let exclusive = flags.intersection(OFlags::EXCL);
        let create = new_content(flags) | exclusive | OFlags::TMPFILE;
        let file = self.make(new, &directory, |mode| {
            openat(&directory, c".", create, mode)
        })?;
        let (id, attr) = self.source.examine_open(&file)?;
        let node = self.nodes.remember(id, Location::unnamed(parent), false)?;
        let opened = self.opened(node, passed_on(flags), file);
        Ok((Entry { node, attr }, opened))
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// Any.
    pub fn mkdir(&self, parent: NodeId, name: &OsStr, new: NewFile) -> Result<Entry, Errno> {
        self.make_at(parent, name, |directory, name| {
            self.make(new, directory, |mode| mkdirat(directory, name, mode))
        })
    }

    /// Creates a regular file, device, named pipe or socket. `rdev` is used only for a device.
    ///
    /// # Errors
    /// Any.
    pub fn mknod(
        &self,
        parent: NodeId,
        name: &OsStr,
        new: NewFile,
        file_type: FileType,
        rdev: u32,
    ) -> Result<Entry, Errno> {
        let (major, minor) = device_parts(rdev);
        let device = makedev(major, minor);
        self.make_at(parent, name, |directory, name| {
            self.make(new, directory, |mode| {
                mknodat(directory, name, file_type, mode, device)
            })
        })
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// Any.
    pub fn symlink(
        &self,
        parent: NodeId,
        name: &OsStr,
        target: &OsStr,
        caller: Caller,
    ) -> Result<Entry, Errno> {
        self.make_at(parent, name, |directory, name| {
            self.act_as_owner(caller, Changed::Directory(directory), || {
                symlinkat(target, directory, name)
            })
        })
    }

    /// Creates a file at a name with `make`, and looks it up.
    fn make_at(
        &self,
        parent: NodeId,
        name: &OsStr,
        make: impl FnOnce(&OwnedFd, &OsStr) -> Result<(), Errno>,
    ) -> Result<Entry, Errno> {
        let name = Name::new(name)?;
        let directory = self.descriptor(parent)?;
        make(&directory, name.as_os_str())?;
        let found = self.source.examine(directory.as_fd(), name)?;
        self.remember(found, parent, name)
    }

    /// Calls `make` with the caller's rights, and with the mode for the new file.
    fn make<T>(
        &self,
        new: NewFile,
        directory: &OwnedFd,
        make: impl Fn(Mode) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mode = Mode::from_raw_mode(new.mode);
        let mode = self
            .rights
            .with_umask(mode, Mode::from_raw_mode(new.umask))?;
        let directory = Changed::Directory(directory);
        if mode.contains(Mode::SGID) {
            // For members of the group, or with a capability.
            self.act(new.caller, directory, || make(mode))
        } else {
            self.act_as_owner(new.caller, directory, || make(mode))
        }
    }
}

/// The flags with which a new file's content is opened. For why `O_APPEND` is dropped, see
/// [`reopen_content`](crate::reopen::reopen_content).
fn new_content(flags: OFlags) -> OFlags {
    passed_on(flags).difference(OFlags::APPEND) | OFlags::CLOEXEC
}
