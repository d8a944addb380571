use std::{ffi::OsStr, time::Duration};

use rustix::{
    fs::{FallocateFlags, FileType, OFlags, RenameFlags, SeekFrom, XattrFlags},
    io::Errno,
};
use verimount_bridge::{DeviceNumber, Listed};
use verimount_fuse::{
    Attr, Caller, CopyRange, CreateMode, Entry, EntryName, FileSystem, Handle, Names, NodeId,
    Opened, Read, Seek, SetAttr, StatFs, Statx, Write, device_parts,
};
use verimount_mount::STATUS_XATTR;
use verimount_sys::IOC_MOUNT_STATUS;

use super::{
    BridgeFs,
    values::{inner, inner_caller, inner_changes, name, new_file, time, write_flags},
};
use crate::limits::{MAX_COPY, MAX_REQUEST};

/// The longest value of an extended attribute, in bytes: the kernel's limit.
const MAX_XATTR: usize = 64 << 10;

/// The buffer size that most values and lists of extended attributes fit into, in bytes.
const USUAL_XATTR: usize = 256;

impl FileSystem for BridgeFs {
    type Scratch = Vec<u8>;

    fn lookup(&self, _: Caller, (parent, name): EntryName<'_>) -> Result<Entry, Errno> {
        match self.mirror().lookup(inner(parent), name) {
            Ok(found) => Ok(self.entry(found)),
            Err(Errno::NOENT) => Ok(self.no_entry()),
            Err(error) => Err(error),
        }
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.bridge.forget(inner(node), count);
    }

    fn getattr(&self, node: NodeId) -> Result<(Attr, Duration), Errno> {
        Ok(self.attr(&self.mirror().getattr(inner(node))?))
    }

    fn statx(&self, node: NodeId) -> Result<(Statx, Duration), Errno> {
        let found = self.mirror().getattr(inner(node))?;
        let (attr, lifetime) = self.attr(&found);
        let btime = found.born.map(time);
        Ok((Statx { attr, btime }, lifetime))
    }

    fn setattr(
        &self,
        caller: Caller,
        node: NodeId,
        changes: &SetAttr,
    ) -> Result<(Attr, Duration), Errno> {
        let open = changes.handle.map(|handle| self.files.get(handle));
        let open = open.transpose()?;
        let found = self.bridge.setattr(
            inner(node),
            inner_caller(caller),
            &inner_changes(changes),
            open.as_ref().map(|open| &open.file),
        )?;
        Ok(self.attr(&found))
    }

    fn readlink<'s>(&self, node: NodeId, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], Errno> {
        *scratch = self.mirror().readlink(inner(node))?.into_encoded_bytes();
        Ok(scratch)
    }

    fn symlink(
        &self,
        caller: Caller,
        (parent, name): EntryName<'_>,
        target: &OsStr,
    ) -> Result<Entry, Errno> {
        let made = self
            .mirror()
            .symlink(inner(parent), name, target, inner_caller(caller))?;
        Ok(self.entry(made))
    }

    fn mknod(
        &self,
        caller: Caller,
        (parent, name): EntryName<'_>,
        mode: CreateMode,
        rdev: u32,
    ) -> Result<Entry, Errno> {
        let (major, minor) = device_parts(rdev);
        let made = self.bridge.mknod(
            inner(parent),
            name,
            new_file(caller, mode),
            FileType::from_raw_mode(mode.mode),
            DeviceNumber { major, minor },
        )?;
        Ok(self.entry(made))
    }

    fn mkdir(
        &self,
        caller: Caller,
        (parent, name): EntryName<'_>,
        mode: CreateMode,
    ) -> Result<Entry, Errno> {
        let made = self
            .mirror()
            .mkdir(inner(parent), name, new_file(caller, mode))?;
        Ok(self.entry(made))
    }

    fn unlink(&self, caller: Caller, (parent, name): EntryName<'_>) -> Result<(), Errno> {
        self.bridge
            .unlink(inner_caller(caller), inner(parent), name)
    }

    fn rmdir(&self, caller: Caller, (parent, name): EntryName<'_>) -> Result<(), Errno> {
        let caller = inner_caller(caller);
        self.mirror().rmdir(caller, inner(parent), name)
    }

    fn rename(
        &self,
        caller: Caller,
        from: EntryName<'_>,
        to: EntryName<'_>,
        flags: u32,
    ) -> Result<(), Errno> {
        self.bridge.rename(
            inner_caller(caller),
            (inner(from.0), from.1),
            (inner(to.0), to.1),
            RenameFlags::from_bits_retain(flags),
        )
    }

    fn link(
        &self,
        caller: Caller,
        node: NodeId,
        (parent, name): EntryName<'_>,
    ) -> Result<Entry, Errno> {
        let (node, parent) = (inner(node), inner(parent));
        let made = self.bridge.link(inner_caller(caller), node, parent, name)?;
        Ok(self.entry(made))
    }

    fn open(&self, caller: Caller, node: NodeId, flags: u32) -> Result<Opened, Errno> {
        let counted = self.open_files.open_for(caller.uid)?;
        let flags = OFlags::from_bits_retain(flags);
        let file = self.bridge.open(inner(node), inner_caller(caller), flags)?;
        Ok(self.opened(file, counted))
    }

    fn create(
        &self,
        caller: Caller,
        (parent, name): EntryName<'_>,
        mode: CreateMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        let counted = self.open_files.open_for(caller.uid)?;
        let flags = OFlags::from_bits_retain(flags);
        let new = new_file(caller, mode);
        let (made, file) = self.bridge.create(inner(parent), name, new, flags)?;
        Ok((self.entry(made), self.opened(file, counted)))
    }

    fn tmpfile(
        &self,
        caller: Caller,
        parent: NodeId,
        mode: CreateMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        let counted = self.open_files.open_for(caller.uid)?;
        let flags = OFlags::from_bits_retain(flags);
        let new = new_file(caller, mode);
        let (made, file) = self.bridge.tmpfile(inner(parent), new, flags)?;
        Ok((self.entry(made), self.opened(file, counted)))
    }

    fn read<'s>(&self, _: NodeId, read: Read, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], Errno> {
        let open = self.files.get(read.handle)?;
        self.was_opened(&open);
        let size = read.size.min(MAX_REQUEST) as usize;
        if scratch.len() < size {
            scratch.resize(size, 0);
        }
        let count = open.file.read(&mut scratch[..size], read.offset)?;
        Ok(&scratch[..count])
    }

    fn write(&self, _: NodeId, write: Write, data: &[u8]) -> Result<u32, Errno> {
        let open = self.files.get(write.handle)?;
        let flags = write_flags(&write);
        let written = if write.mapped {
            open.file.write_mapped(data, write.offset, flags)?
        } else {
            open.file.write(data, write.offset, flags)?
        };
        Ok(written as u32)
    }

    fn release(&self, handle: Handle) {
        if let Some(open) = self.files.remove(handle) {
            self.was_opened(&open);
        }
    }

    fn cancel_open(&self, handle: Handle) {
        // The kernel did not get the answer, so it has not dropped pages.
        self.files.remove(handle);
    }

    fn fsync(&self, _: NodeId, handle: Handle, data_only: bool) -> Result<(), Errno> {
        let open = self.files.get(handle)?;
        self.mirror().fsync(open.file.file(), data_only)
    }

    fn fallocate(
        &self,
        _: NodeId,
        handle: Handle,
        offset: u64,
        len: u64,
        mode: u32,
    ) -> Result<(), Errno> {
        let open = self.files.get(handle)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        self.mirror().fallocate(open.file.file(), mode, offset, len)
    }

    fn lseek(&self, _: NodeId, handle: Handle, offset: u64, to: Seek) -> Result<u64, Errno> {
        let to = match to {
            Seek::Data => SeekFrom::Data(offset),
            Seek::Hole => SeekFrom::Hole(offset),
        };
        let open = self.files.get(handle)?;
        self.mirror().seek(open.file.file(), to)
    }

    fn copy_file_range(&self, range: &CopyRange) -> Result<u64, Errno> {
        let (from, to) = (self.files.get(range.from)?, self.files.get(range.to)?);
        let copied = self.mirror().copy_range(
            (from.file.file(), range.from_offset),
            (to.file.file(), range.to_offset),
            range.len.min(MAX_COPY) as usize,
        )?;
        Ok(copied as u64)
    }

    fn readdir(&self, node: NodeId, position: u64, names: &mut Names) -> Result<(), Errno> {
        let with_entries = names.wants_entries();
        self.list(node, position, |directory| {
            let mut next = None;
            let mut add = |listed: Listed<'_>| {
                let is_added = names.add(name(&listed), || match listed.entry {
                    Some(found) => self.entry(found),
                    None => self.no_entry(),
                });
                if is_added {
                    next = Some(listed.next);
                }
                is_added
            };
            self.mirror()
                .list(directory, position, with_entries, &mut add)?;
            Ok(next)
        })
    }

    fn fsyncdir(&self, node: NodeId, data_only: bool) -> Result<(), Errno> {
        let directory = self.mirror().open_directory(inner(node))?;
        self.mirror().fsync_directory(&directory, data_only)
    }

    fn statfs(&self, node: NodeId) -> Result<StatFs, Errno> {
        let usage = self.mirror().statfs(inner(node))?;
        Ok(StatFs {
            // FUSE has 32 bits for either size.
            block_size: usage.f_frsize as u32,
            io_size: usage.f_bsize as u32,
            blocks: usage.f_blocks,
            blocks_free: usage.f_bfree,
            blocks_available: usage.f_bavail,
            files: usage.f_files,
            files_free: usage.f_ffree,
            name_max: usage.f_namemax as u32,
        })
    }

    fn setxattr(
        &self,
        caller: Caller,
        node: NodeId,
        name: &OsStr,
        value: &[u8],
        flags: u32,
    ) -> Result<(), Errno> {
        self.has_xattrs()?;
        let (caller, flags) = (inner_caller(caller), XattrFlags::from_bits_retain(flags));
        self.mirror()
            .setxattr(caller, inner(node), name, value, flags)
    }

    fn getxattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        self.has_xattrs()?;
        if node == NodeId::ROOT && name == STATUS_XATTR {
            return self.status().to_json();
        }
        with_room(|room| self.mirror().getxattr(inner(node), name, room))
    }

    fn listxattr(&self, caller: Caller, node: NodeId) -> Result<Vec<u8>, Errno> {
        self.has_xattrs()?;
        let names = with_room(|room| self.mirror().listxattr(inner(node), room))?;
        Ok(match caller.uid {
            0 => names,
            // The kernel checks only access to the value, not to the list.
            _ => without_trusted(&names),
        })
    }

    fn removexattr(&self, caller: Caller, node: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.has_xattrs()?;
        let caller = inner_caller(caller);
        self.mirror().removexattr(caller, inner(node), name)
    }

    fn ioctl(&self, node: NodeId, command: u32) -> Result<Vec<u8>, Errno> {
        match (node, command) {
            // For mounts without extended attributes.
            (NodeId::ROOT, IOC_MOUNT_STATUS) => self.status().to_json(),
            _ => Err(Errno::NOTTY),
        }
    }
}

impl BridgeFs {
    /// # Errors
    /// `ENOSYS` if the mount has no extended attributes: after it the kernel sends no more such requests.
    fn has_xattrs(&self) -> Result<(), Errno> {
        if self.options.no_xattr {
            Err(Errno::NOSYS)
        } else {
            Ok(())
        }
    }
}

/// Calls `read` with a buffer for most values, and if that is too small, with one for any value.
fn with_room(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; USUAL_XATTR];
    let len = match read(&mut value) {
        Err(Errno::RANGE) => {
            value.resize(MAX_XATTR, 0);
            read(&mut value)?
        }
        other => other?,
    };
    value.truncate(len);
    Ok(value)
}

/// The names without those that only root may see.
fn without_trusted(names: &[u8]) -> Vec<u8> {
    let each = names.split_inclusive(|byte| *byte == 0);
    let seen = each.filter(|name| !name.starts_with(b"trusted."));
    seen.collect::<Vec<_>>().concat()
}
