use std::{ffi::OsStr, time::Duration};

use rustix::{
    fs::{FallocateFlags, FileType, OFlags, RenameFlags, SeekFrom, XattrFlags},
    io::Errno,
};
use verimount_audit::Outcome;
use verimount_bridge as bridge;
use verimount_fuse::{
    Attr, Caller, CopyRange, Entry, EntryName, FileSystem, Handle, Held, Name, Names, NewFile,
    NodeId, Opened, Read, Seek, SetAttr, StatFs, Write,
};
use verimount_mount::STATUS_XATTR;
use verimount_sys::IOC_MOUNT_STATUS;

use super::BridgeFs;
use crate::limits::{MAX_COPY, MAX_REQUEST};

/// The longest value of an extended attribute, in bytes: the kernel's limit.
const MAX_XATTR: usize = 64 << 10;

/// The buffer size that most values and lists of extended attributes fit into, in bytes.
const USUAL_XATTR: usize = 256;

impl FileSystem for BridgeFs {
    type Scratch = Vec<u8>;

    fn held(&self, held: Held) {
        let Some(audit) = self.bridge.audit() else {
            return held.fail(Errno::IO);
        };
        let request = held.request();
        audit.log.held(request, move |outcome| match outcome {
            Outcome::Written => held.again(),
            Outcome::Refused => held.fail(Errno::IO),
        });
    }

    fn let_go(&self, request: u64) {
        if let Some(audit) = self.bridge.audit() {
            audit.log.forget(request);
        }
    }

    fn lookup(&self, _: Caller, (parent, name): EntryName<'_>) -> Result<Entry, Errno> {
        match self.mirror().lookup(parent, name) {
            Ok(found) => Ok(self.entry(found)),
            Err(Errno::NOENT) => Ok(self.no_entry()),
            Err(error) => Err(error),
        }
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.bridge.forget(node, count);
    }

    fn getattr(&self, node: NodeId) -> Result<(Attr, Duration), Errno> {
        Ok(self.attr(self.mirror().getattr(node)?))
    }

    fn statx(&self, node: NodeId) -> Result<(Attr, Duration), Errno> {
        self.getattr(node)
    }

    fn setattr(
        &self,
        caller: Caller,
        node: NodeId,
        changes: &SetAttr,
        open: Option<Handle>,
    ) -> Result<(Attr, Duration), Errno> {
        let open = open.map(|handle| self.files.get(handle)).transpose()?;
        let open = open.as_ref().map(|open| &open.file);
        Ok(self.attr(self.bridge.setattr(node, caller, changes, open)?))
    }

    fn readlink<'s>(&self, node: NodeId, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], Errno> {
        *scratch = self.mirror().readlink(node)?.into_encoded_bytes();
        Ok(scratch)
    }

    fn symlink(
        &self,
        caller: Caller,
        (parent, name): EntryName<'_>,
        target: &OsStr,
    ) -> Result<Entry, Errno> {
        let made = self.mirror().symlink(parent, name, target, caller)?;
        Ok(self.entry(made))
    }

    fn mknod(
        &self,
        (parent, name): EntryName<'_>,
        new: NewFile,
        rdev: u32,
    ) -> Result<Entry, Errno> {
        let file_type = FileType::from_raw_mode(new.mode);
        let made = self.bridge.mknod(parent, name, new, file_type, rdev)?;
        Ok(self.entry(made))
    }

    fn mkdir(&self, (parent, name): EntryName<'_>, new: NewFile) -> Result<Entry, Errno> {
        Ok(self.entry(self.mirror().mkdir(parent, name, new)?))
    }

    fn unlink(&self, caller: Caller, (parent, name): EntryName<'_>) -> Result<(), Errno> {
        self.bridge.unlink(caller, parent, name)
    }

    fn rmdir(&self, caller: Caller, (parent, name): EntryName<'_>) -> Result<(), Errno> {
        self.mirror().rmdir(caller, parent, name)
    }

    fn rename(
        &self,
        caller: Caller,
        from: EntryName<'_>,
        to: EntryName<'_>,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        self.bridge.rename(caller, from, to, flags)
    }

    fn link(
        &self,
        caller: Caller,
        node: NodeId,
        (parent, name): EntryName<'_>,
    ) -> Result<Entry, Errno> {
        Ok(self.entry(self.bridge.link(caller, node, parent, name)?))
    }

    fn open(&self, caller: Caller, node: NodeId, flags: OFlags) -> Result<Opened, Errno> {
        let counted = self.open_files.open_for(caller.uid)?;
        let file = self.bridge.open(node, caller, flags)?;
        Ok(self.opened(file, counted))
    }

    fn create(
        &self,
        (parent, name): EntryName<'_>,
        new: NewFile,
        flags: OFlags,
    ) -> Result<(Entry, Opened), Errno> {
        let counted = self.open_files.open_for(new.caller.uid)?;
        let (made, file) = self.bridge.create(parent, name, new, flags)?;
        Ok((self.entry(made), self.opened(file, counted)))
    }

    fn tmpfile(
        &self,
        parent: NodeId,
        new: NewFile,
        flags: OFlags,
    ) -> Result<(Entry, Opened), Errno> {
        let counted = self.open_files.open_for(new.caller.uid)?;
        let (made, file) = self.bridge.tmpfile(parent, new, flags)?;
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
        let written = if write.mapped {
            open.file.write_mapped(data, write.offset, write.flags)?
        } else {
            open.file.write(data, write.offset, write.flags)?
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
        mode: FallocateFlags,
    ) -> Result<(), Errno> {
        let open = self.files.get(handle)?;
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
            let mut add = |name: Name<'_>, found: Option<bridge::Entry>| {
                let is_added = names.add(name, || {
                    found.map_or_else(|| self.no_entry(), |found| self.entry(found))
                });
                if is_added {
                    next = Some(name.next);
                }
                is_added
            };
            self.mirror()
                .list(directory, position, with_entries, &mut add)?;
            Ok(next)
        })
    }

    fn fsyncdir(&self, node: NodeId, data_only: bool) -> Result<(), Errno> {
        let directory = self.mirror().open_directory(node)?;
        self.mirror().fsync_directory(&directory, data_only)
    }

    fn statfs(&self, node: NodeId) -> Result<StatFs, Errno> {
        let usage = self.mirror().statfs(node)?;
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
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        self.has_xattrs()?;
        self.mirror().setxattr(caller, node, name, value, flags)
    }

    fn getxattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        self.has_xattrs()?;
        if node == NodeId::ROOT && name == STATUS_XATTR {
            return self.status().to_json();
        }
        with_room(|room| self.mirror().getxattr(node, name, room))
    }

    fn listxattr(&self, caller: Caller, node: NodeId) -> Result<Vec<u8>, Errno> {
        self.has_xattrs()?;
        let names = with_room(|room| self.mirror().listxattr(node, room))?;
        Ok(match caller.uid {
            0 => names,
            // The kernel checks only access to the value, not to the list.
            _ => without_trusted(&names),
        })
    }

    fn removexattr(&self, caller: Caller, node: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.has_xattrs()?;
        self.mirror().removexattr(caller, node, name)
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
