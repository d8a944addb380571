use std::{ffi::OsStr, time::Duration};

use rustix::io::Errno;

use crate::{
    Attr, Caller, CopyRange, CreateMode, Entry, Handle, Names, NamesPlus, NodeId, Opened, Read,
    Seek, SetAttr, StatFs, Statx, Write,
};

/// A file system that answers the kernel's requests, from several threads at once.
///
/// An operation returns what the kernel is told, or the error its caller gets. What a file system
/// has not got it leaves out: the answer is `ENOSYS`, after which the kernel often asks no more.
/// The operations are those of `linux/fuse.h`; flags are the system calls' own.
#[allow(unused_variables, reason = "the operations that are left out")]
pub trait FileSystem: Send + Sync + 'static {
    /// What each thread keeps between requests, such as a buffer for what it reads.
    type Scratch: Default;

    /// Finds the file of a name; the kernel then remembers it once more.
    fn lookup(&self, caller: Caller, parent: NodeId, name: &OsStr) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// The kernel remembers `node` `count` times less.
    fn forget(&self, node: NodeId, count: u64) {}

    /// A file's attributes, and how long they hold.
    fn getattr(&self, node: NodeId, handle: Option<Handle>) -> Result<(Attr, Duration), Errno> {
        Err(Errno::NOSYS)
    }

    /// A file's attributes and when it was made, and how long that holds.
    fn statx(&self, node: NodeId, handle: Option<Handle>) -> Result<(Statx, Duration), Errno> {
        Err(Errno::NOSYS)
    }

    /// Sets attributes; returns all of them.
    fn setattr(
        &self,
        caller: Caller,
        node: NodeId,
        changes: &SetAttr,
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

    /// Makes a symbolic link.
    fn symlink(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        target: &OsStr,
    ) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes a file that is no directory.
    fn mknod(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: CreateMode,
        rdev: u32,
    ) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes a directory.
    fn mkdir(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: CreateMode,
    ) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Removes the name of a file.
    fn unlink(&self, caller: Caller, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Removes an empty directory.
    fn rmdir(&self, caller: Caller, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Renames, with the flags of `renameat2`.
    fn rename(
        &self,
        caller: Caller,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        flags: u32,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Gives a file one more name.
    fn link(
        &self,
        caller: Caller,
        node: NodeId,
        parent: NodeId,
        name: &OsStr,
    ) -> Result<Entry, Errno> {
        Err(Errno::NOSYS)
    }

    /// Opens a file, with the flags of `open`.
    fn open(&self, caller: Caller, node: NodeId, flags: u32) -> Result<Opened, Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes a file and opens it.
    fn create(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: CreateMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        Err(Errno::NOSYS)
    }

    /// Makes a file without a name and opens it.
    fn tmpfile(
        &self,
        caller: Caller,
        parent: NodeId,
        mode: CreateMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        Err(Errno::NOSYS)
    }

    /// Reads a part of a file.
    fn read<'s>(
        &self,
        node: NodeId,
        read: Read,
        scratch: &'s mut Self::Scratch,
    ) -> Result<&'s [u8], Errno> {
        Err(Errno::NOSYS)
    }

    /// Writes a part of a file; returns how many bytes.
    fn write(&self, node: NodeId, write: Write, data: &[u8]) -> Result<u32, Errno> {
        Err(Errno::NOSYS)
    }

    /// A descriptor of the file was closed. There may be more.
    fn flush(&self, node: NodeId, handle: Handle) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// The last descriptor of this open was closed.
    fn release(&self, node: NodeId, handle: Handle) {}

    /// An open has succeeded of which the kernel got no answer: its caller was killed while it was
    /// under way.
    fn cancel_open(&self, node: NodeId, handle: Handle) {
        self.release(node, handle);
    }

    /// Makes content durable, and unless `data_only` all attributes.
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
        mode: u32,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Finds data or a hole at or behind `offset`.
    fn lseek(&self, node: NodeId, handle: Handle, offset: u64, to: Seek) -> Result<u64, Errno> {
        Err(Errno::NOSYS)
    }

    /// Copies from file to file; returns how many bytes.
    fn copy_file_range(&self, range: &CopyRange) -> Result<u64, Errno> {
        Err(Errno::NOSYS)
    }

    /// Opens a directory.
    fn opendir(&self, caller: Caller, node: NodeId, flags: u32) -> Result<Opened, Errno> {
        Err(Errno::NOSYS)
    }

    /// Lists a directory from `position` on, which is 0 or was given with a name before.
    fn readdir(
        &self,
        node: NodeId,
        handle: Handle,
        position: u64,
        names: &mut Names,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Lists a directory with what a lookup of each name would tell.
    fn readdirplus(
        &self,
        node: NodeId,
        handle: Handle,
        position: u64,
        names: &mut NamesPlus,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// The last descriptor of this open directory was closed.
    fn releasedir(&self, node: NodeId, handle: Handle) {}

    /// Makes a directory's names durable.
    fn fsyncdir(&self, node: NodeId, handle: Handle, data_only: bool) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Use of the file system.
    fn statfs(&self, node: NodeId) -> Result<StatFs, Errno> {
        Err(Errno::NOSYS)
    }

    /// Sets an extended attribute. `kill_sgid`: setting an access control list takes the set-group
    /// bit away.
    fn setxattr(
        &self,
        caller: Caller,
        node: NodeId,
        name: &OsStr,
        value: &[u8],
        flags: u32,
        kill_sgid: bool,
    ) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// The value of an extended attribute.
    fn getxattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        Err(Errno::NOSYS)
    }

    /// The names of all extended attributes, each with a zero byte behind it.
    fn listxattr(&self, caller: Caller, node: NodeId) -> Result<Vec<u8>, Errno> {
        Err(Errno::NOSYS)
    }

    /// Removes an extended attribute.
    fn removexattr(&self, caller: Caller, node: NodeId, name: &OsStr) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// Any other command, whose number says how much comes with it and how much it returns.
    fn ioctl(
        &self,
        node: NodeId,
        handle: Handle,
        command: u32,
        input: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        Err(Errno::NOTTY)
    }
}
