use std::{ffi::OsStr, time::Duration};

use rustix::{
    fs::{FallocateFlags, OFlags, RenameFlags, XattrFlags},
    io::Errno,
};

use crate::{
    Attr, Caller, CopyRange, Entry, Handle, Held, Names, NewFile, NodeId, Opened, Read, Seek,
    SetAttr, StatFs, Write,
};

/// A name in a directory.
pub type EntryName<'a> = (NodeId, &'a OsStr);

/// A file system that answers the kernel's requests, from several threads at once.
///
/// An operation returns the answer for the kernel, or the error for the caller. An operation that is
/// not implemented returns `ENOSYS`; for many operations the kernel then stops sending them.
/// The operations are those of `linux/fuse.h`; flags are those of the system calls.
#[allow(unused_variables, reason = "default implementations")]
pub trait FileSystem: Send + Sync + 'static {
    /// State that each thread reuses between requests, such as a read buffer.
    type Scratch: Default;

    /// The mount has ended while requests are under way, whose answers reach nobody: what they wait for can be
    /// given up. It may be called several times.
    fn unmounted(&self) {}

    /// A request was answered with [`HELD`](crate::HELD): this says when it is to go on.
    fn held(&self, held: Held) {
        held.fail(Errno::IO);
    }

    /// The request with this number, which was held, was answered, or its caller was killed.
    fn let_go(&self, request: u64) {}

    /// Finds the file with a name. Success increments the kernel's lookup count of the node.
    fn lookup(&self, caller: Caller, entry: EntryName<'_>) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Decreases the lookup count of `node` by `count`; at 0 the kernel no longer knows the node.
    fn forget(&self, node: NodeId, count: u64) {}

    /// A file's attributes, and how long the kernel may cache them.
    fn getattr(&self, node: NodeId) -> Result<(Attr, Duration), Errno> {
        Err(Errno::NOSYS)
    }

    /// A file's attributes including its creation time, and how long the kernel may cache them.
    fn statx(&self, node: NodeId) -> Result<(Attr, Duration), Errno> {
        Err(Errno::NOSYS)
    }

    /// Sets attributes, by an open file if that is known; returns all of them.
    fn setattr(
        &self,
        caller: Caller,
        node: NodeId,
        changes: &SetAttr,
        open: Option<Handle>,
    ) -> Result<(Attr, Duration), Errno> {
        Err(Errno::NOSYS)
    }

    /// The target of a symbolic link.
    fn readlink<'s>(
        &self,
        node: NodeId,
        scratch: &'s mut Self::Scratch,
    ) -> Result<&'s [u8], Errno> {
        Err(Errno::NOSYS)
    }

    /// Creates a symbolic link.
    fn symlink(
        &self,
        caller: Caller,
        entry: EntryName<'_>,
        target: &OsStr,
    ) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Creates a file of any type but a directory.
    fn mknod(&self, entry: EntryName<'_>, new: NewFile, rdev: u32) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Creates a directory.
    fn mkdir(&self, entry: EntryName<'_>, new: NewFile) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Removes a name of a file that is not a directory.
    fn unlink(&self, caller: Caller, entry: EntryName<'_>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Removes an empty directory.
    fn rmdir(&self, caller: Caller, entry: EntryName<'_>) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Renames, as `renameat2`.
    fn rename(
        &self,
        caller: Caller,
        from: EntryName<'_>,
        to: EntryName<'_>,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Creates a hard link: one more name for a file.
    fn link(&self, caller: Caller, node: NodeId, entry: EntryName<'_>) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Opens a file.
    fn open(&self, caller: Caller, node: NodeId, flags: OFlags) -> Result<Opened, Errno> {
        Err(Errno::NOSYS)
    }

    /// Creates a regular file and opens it.
    fn create(
        &self,
        entry: EntryName<'_>,
        new: NewFile,
        flags: OFlags,
    ) -> Result<(Entry, Opened), Errno> {
        Err(Errno::NOSYS)
    }

    /// Creates a regular file without a name (`O_TMPFILE`) and opens it.
    fn tmpfile(
        &self,
        parent: NodeId,
        new: NewFile,
        flags: OFlags,
    ) -> Result<(Entry, Opened), Errno> {
        Err(Errno::NOSYS)
    }

    /// Reads a range of a file.
    fn read<'s>(
        &self,
        node: NodeId,
        read: Read,
        scratch: &'s mut Self::Scratch,
    ) -> Result<&'s [u8], Errno> {
        Err(Errno::NOSYS)
    }

    /// Writes to a file; returns the number of bytes written.
    fn write(&self, node: NodeId, write: Write, data: &[u8]) -> Result<u32, Errno> {
        Err(Errno::NOSYS)
    }

    /// The last descriptor of this open file was closed.
    fn release(&self, handle: Handle) {}

    /// An open succeeded, but its caller was killed meanwhile, so that the kernel never got the handle.
    fn cancel_open(&self, handle: Handle) {
        self.release(handle);
    }

    /// Makes content durable, and attributes as well unless `data_only`.
    fn fsync(&self, node: NodeId, handle: Handle, data_only: bool) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Allocates, punches or zeroes, with the mode of `fallocate`.
    fn fallocate(
        &self,
        node: NodeId,
        handle: Handle,
        offset: u64,
        len: u64,
        mode: FallocateFlags,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Finds data or a hole at or behind `offset`.
    fn lseek(&self, node: NodeId, handle: Handle, offset: u64, to: Seek) -> Result<u64, Errno> {
        Err(Errno::NOSYS)
    }

    /// Copies from file to file; returns the number of bytes copied.
    fn copy_file_range(&self, range: &CopyRange) -> Result<u64, Errno> {
        Err(Errno::NOSYS)
    }

    /// Lists a directory from `position` on: 0, or the [`next`](crate::Name::next) of a listed name. If entries are
    /// [wanted](Names::wants_entries), this looks up each name, which increments the lookup count of each node.
    fn readdir(&self, node: NodeId, position: u64, names: &mut Names) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes a directory's names durable.
    fn fsyncdir(&self, node: NodeId, data_only: bool) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Size and free space of the file system.
    fn statfs(&self, node: NodeId) -> Result<StatFs, Errno> {
        Err(Errno::NOSYS)
    }

    /// Sets an extended attribute.
    fn setxattr(
        &self,
        caller: Caller,
        node: NodeId,
        name: &OsStr,
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// The value of an extended attribute.
    fn getxattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        Err(Errno::NOSYS)
    }

    /// The names of all extended attributes, each followed by a zero byte.
    fn listxattr(&self, caller: Caller, node: NodeId) -> Result<Vec<u8>, Errno> {
        Err(Errno::NOSYS)
    }

    /// Removes an extended attribute.
    fn removexattr(&self, caller: Caller, node: NodeId, name: &OsStr) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// An `ioctl` without input, whose command number encodes the size of its output.
    fn ioctl(&self, node: NodeId, command: u32) -> Result<Vec<u8>, Errno> {
        Err(Errno::NOTTY)
    }
}
