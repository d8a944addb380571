use std::{
    ffi::OsStr,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{FileType, Mode, OFlags, makedev, mkdirat, mknodat, openat, symlinkat},
    io::Errno,
};

use super::{Entry, Mirror};
use crate::{
    Caller, DeviceNumber, NodeId,
    file::{OpenFile, passed_on},
    name::Name,
    rights::Acting,
    table::Location,
};

/// Bits of a mode that together say that a file changes the group of who runs it.
const SET_GROUP: Mode = Mode::SGID.union(Mode::XGRP);

/// Who makes a file, and how it is to be.
#[derive(Debug, Clone, Copy)]
pub struct NewFile {
    /// Whose it will be.
    pub caller: Caller,
    /// Permission bits, set-id bits and sticky bit.
    pub mode: u32,
    /// The caller's umask: it takes these bits away, unless the directory has a default access
    /// control list. 0 if it was applied already.
    pub umask: u32,
}

/// What makes files.
impl Mirror {
    /// Makes and opens a regular file.
    ///
    /// # Errors
    /// `EEXIST` if the name is taken and the flags have `O_EXCL`. Without, `ESTALE`: the kernel
    /// only asks this of a name that it knows to be free. If it is not, the kernel has not checked
    /// whether the caller may open what is there; it looks again then.
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
        let file = self.make(new, |mode| {
            openat(&directory, name.as_os_str(), create, mode)
        });
        let file = file.map_err(|errno| match errno {
            Errno::EXIST if !flags.contains(OFlags::EXCL) => Errno::STALE,
            errno => errno,
        })?;
        let entry = self.remember(self.source.examine_open(&file)?, parent, name)?;
        Ok((entry, self.opened(entry.node, passed_on(flags), file)))
    }

    /// Makes and opens a regular file without a name in the file system of a directory. It can be
    /// linked later, unless the flags have `O_EXCL`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where there is no such thing, and any.
    pub fn tmpfile(
        &self,
        parent: NodeId,
        new: NewFile,
        flags: OFlags,
    ) -> Result<(Entry, OpenFile), Errno> {
        let directory = self.descriptor(parent)?;
        let exclusive = flags.intersection(OFlags::EXCL);
        let create = new_content(flags) | exclusive | OFlags::TMPFILE;
        let file = self.make(new, |mode| openat(&directory, c".", create, mode))?;
        let (id, attr) = self.source.examine_open(&file)?;
        let node = self.nodes.remember(id, Location::unnamed(parent))?;
        let opened = self.opened(node, passed_on(flags), file);
        Ok((Entry { node, attr }, opened))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// Any.
    pub fn mkdir(&self, parent: NodeId, name: &OsStr, new: NewFile) -> Result<Entry, Errno> {
        self.make_at(parent, name, |directory, name| {
            self.make(new, |mode| mkdirat(directory, name, mode))
        })
    }

    /// Makes a regular file, device, named pipe or socket. `device` only matters for a device.
    ///
    /// # Errors
    /// Any.
    pub fn mknod(
        &self,
        parent: NodeId,
        name: &OsStr,
        new: NewFile,
        file_type: FileType,
        device: DeviceNumber,
    ) -> Result<Entry, Errno> {
        let device = makedev(device.major, device.minor);
        self.make_at(parent, name, |directory, name| {
            self.make(new, |mode| {
                mknodat(directory, name, file_type, mode, device)
            })
        })
    }

    /// Makes a symbolic link.
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
            let _acting = self.acting_for(caller)?;
            symlinkat(target, directory, name)
        })
    }

    /// Has something made at a name, and looks it up.
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

    /// Has something made as the caller's, with the mode that it shall have.
    fn make<T>(
        &self,
        new: NewFile,
        make: impl FnOnce(Mode) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mode = Mode::from_raw_mode(new.mode);
        let mode = self
            .rights
            .with_umask(mode, Mode::from_raw_mode(new.umask))?;
        // Whether the caller may have that, the kernel has decided.
        let _keeping = match mode.contains(SET_GROUP) {
            true => Some(self.rights.keep_set_gid()?),
            false => None,
        };
        let _acting = self.acting_for(new.caller)?;
        make(mode)
    }

    /// What is made while this lives is the caller's, if anything may be made at all.
    fn acting_for(&self, caller: Caller) -> Result<Acting, Errno> {
        self.for_change()?;
        self.rights.act_for(caller)
    }
}

/// The flags by which a new file's content is opened; why not for appending, see
/// [`reopen_content`](crate::reopen::reopen_content).
fn new_content(flags: OFlags) -> OFlags {
    passed_on(flags).difference(OFlags::APPEND) | OFlags::CLOEXEC
}
