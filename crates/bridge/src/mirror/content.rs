use std::{os::fd::OwnedFd, sync::OnceLock};

use rustix::{
    fs::{
        AtFlags, FallocateFlags, OFlags, SeekFrom, StatxAttributes, StatxFlags, copy_file_range,
        fallocate, fdatasync, fsync, seek, statx,
    },
    io::Errno,
};

use verimount_sys::is_open_for_writing;

use super::Mirror;
use crate::{
    NodeId,
    errno::errno,
    file::{Content, OpenFile, passed_on, wants_writing},
    reopen::reopen_content,
};

/// Operations on a regular file's content, except reading and writing.
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

    /// Opens a file for passthrough. A file that is opened for reading is only held, which saves
    /// opening it until another operation needs it. A file that is opened for writing is opened at
    /// once, because a later failure in the kernel would be reported only as `EIO`.
    ///
    /// # Errors
    /// Any.
    pub fn hold_file(&self, node: NodeId, flags: OFlags) -> Result<OpenFile, Errno> {
        self.for_opening(flags)?;
        let path = self.descriptor(node)?;
        let opened = self.opened.enter(node, &path);
        let flags = passed_on(flags);
        let open = if wants_writing(flags) {
            OnceLock::from(reopen_content(&path, flags)?)
        } else {
            OnceLock::new()
        };
        Ok(OpenFile {
            node,
            flags,
            content: Content::Held { path, open },
            _opened: opened,
        })
    }

    /// A new descriptor of a file for reading or writing, with these flags.
    pub(crate) fn reopen(&self, node: NodeId, flags: OFlags) -> Result<OwnedFd, Errno> {
        reopen_content(&self.descriptor(node)?, flags)
    }

    /// Whether any process can change a file's content without changing its times, because it has
    /// the file mapped or is in the middle of a write. If not, every later change updates its
    /// times.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the file system does not support this; `EACCES` for another user's file, unless
    /// root asks; and any other.
    pub fn can_change_unnoticed(&self, file: &OpenFile) -> Result<bool, Errno> {
        if !self.source.file_system.tells_of_mappings() {
            return Err(Errno::OPNOTSUPP);
        }
        if file.is_writable() {
            return Ok(true);
        }
        is_open_for_writing(file.fd()?).map_err(|error| errno(&error))
    }

    /// Whether a file can only be appended to.
    ///
    /// # Errors
    /// Any.
    pub(crate) fn is_append_only(&self, file: &OpenFile) -> Result<bool, Errno> {
        let (file, flags) = (file.backing_fd().0, AtFlags::EMPTY_PATH);
        let found = statx(file, c"", flags, StatxFlags::empty())?;
        Ok(found.stx_attributes.contains(StatxAttributes::APPEND))
    }

    fn for_opening(&self, flags: OFlags) -> Result<(), Errno> {
        self.rights.prepare_thread()?;
        if wants_writing(flags) {
            self.for_change()
        } else {
            Ok(())
        }
    }

    /// Makes a file's content and attributes durable; with `data_only`, only those attributes that
    /// are needed to read the content.
    ///
    /// # Errors
    /// Any.
    pub fn fsync(&self, file: &OpenFile, data_only: bool) -> Result<(), Errno> {
        if data_only {
            fdatasync(file.fd()?)
        } else {
            fsync(file.fd()?)
        }
    }

    /// Allocates or frees space in a file, as `fallocate`.
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

    /// Copies up to `len` bytes from one file to another, as `copy_file_range`. Returns the number
    /// of bytes, which may be smaller at any time.
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

    /// Finds the next data or hole: [`SeekFrom::Data`] or [`SeekFrom::Hole`].
    ///
    /// # Errors
    /// `ENXIO` after the last one.
    pub fn seek(&self, file: &OpenFile, to: SeekFrom) -> Result<u64, Errno> {
        seek(file.fd()?, to)
    }
}
