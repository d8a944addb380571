use std::{os::fd::OwnedFd, sync::OnceLock};

use rustix::{
    fs::{FallocateFlags, OFlags, SeekFrom, copy_file_range, fallocate, fdatasync, fsync, seek},
    io::Errno,
};

use verimount_sys::is_open_for_writing;

use super::Mirror;
use crate::{
    NodeId,
    errno::errno,
    file::{OpenFile, passed_on, wants_writing},
    reopen::reopen_content,
};

/// What is done with a regular file's content, besides reading and writing it.
impl Mirror {
    /// Opens a file for reading and writing through this process.
    ///
    /// # Errors
    /// Any.
    pub fn open_file(&self, node: NodeId, flags: OFlags) -> Result<OpenFile, Errno> {
        self.for_opening(flags)?;
        let flags = passed_on(flags);
        Ok(self.opened(node, flags, self.reopen(node, flags)?))
    }

    /// Opens a file whose content the kernel will read and write by itself. One that is only read is
    /// only held, until something is to be done with it, which saves opening it. One that is written
    /// to is opened, as the kernel has but one error to tell why it could not.
    ///
    /// # Errors
    /// Any.
    pub fn hold_file(&self, node: NodeId, flags: OFlags) -> Result<OpenFile, Errno> {
        self.for_opening(flags)?;
        let path = self.descriptor(node)?;
        let opened = self.opened.enter(node, &path);
        let flags = passed_on(flags);
        let open = match wants_writing(flags) {
            true => OnceLock::from(reopen_content(&path, flags)?),
            false => OnceLock::new(),
        };
        Ok(OpenFile::held(node, flags, path, open, opened))
    }

    /// A descriptor of a file's own, to read and write by as the flags say.
    pub(crate) fn reopen(&self, node: NodeId, flags: OFlags) -> Result<OwnedFd, Errno> {
        reopen_content(&self.descriptor(node)?, flags)
    }

    /// Whether somebody can write to a file without changing its times: who has it mapped, or is in
    /// the middle of a write. If nobody can, each change that comes later changes its times.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system does not tell; `EACCES` for a file of another user, who is
    /// told by root alone; and any.
    pub fn can_change_unnoticed(&self, file: &OpenFile) -> Result<bool, Errno> {
        if !self.source.file_system().tells_of_mappings() {
            return Err(Errno::OPNOTSUPP);
        }
        if file.is_writable() {
            return Ok(true);
        }
        is_open_for_writing(file.fd()?).map_err(|error| errno(&error))
    }

    fn for_opening(&self, flags: OFlags) -> Result<(), Errno> {
        self.rights.prepare_thread()?;
        match wants_writing(flags) {
            true => self.for_change(),
            false => Ok(()),
        }
    }

    /// Puts a file's content on the disk, and its attributes, or of those only what it takes to read
    /// the content back.
    ///
    /// # Errors
    /// Any.
    pub fn fsync(&self, file: &OpenFile, data_only: bool) -> Result<(), Errno> {
        match data_only {
            true => fdatasync(file.fd()?),
            false => fsync(file.fd()?),
        }
    }

    /// Reserves, frees or moves room in a file, as `fallocate` does.
    ///
    /// # Errors
    /// Any.
    pub fn fallocate(
        &self,
        file: &OpenFile,
        mode: FallocateFlags,
        offset: u64,
        len: u64,
    ) -> Result<(), Errno> {
        self.for_change()?;
        fallocate(file.fd()?, mode, offset, len)
    }

    /// Copies up to `len` bytes from one file to another, as `copy_file_range` does. Returns how
    /// many: fewer than asked for at the end of the file, or whenever the file system likes.
    ///
    /// # Errors
    /// Any.
    pub fn copy_range(
        &self,
        (from, mut from_offset): (&OpenFile, u64),
        (to, mut to_offset): (&OpenFile, u64),
        len: usize,
    ) -> Result<usize, Errno> {
        self.for_change()?;
        let offsets = (Some(&mut from_offset), Some(&mut to_offset));
        copy_file_range(from.fd()?, offsets.0, to.fd()?, offsets.1, len)
    }

    /// Where the next data or hole is: [`SeekFrom::Data`] or [`SeekFrom::Hole`].
    ///
    /// # Errors
    /// `ENXIO` behind the last one.
    pub fn seek(&self, file: &OpenFile, to: SeekFrom) -> Result<u64, Errno> {
        seek(file.fd()?, to)
    }
}
