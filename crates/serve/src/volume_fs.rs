use std::{ffi::OsStr, time::Duration};

use rustix::{
    fs::{FallocateFlags, FileType, OFlags},
    io::{Errno, ReadWriteFlags},
};
use verimount_fuse::{
    Answering, Attr, Caller, Capabilities, Entry, EntryName, FileSystem, Generation, Handle, Name,
    Names, Node, NodeId, OpenFlags, Opened, Read, SessionOptions, SetAttr, StatFs, Time, Write,
};
use verimount_mount::{Mountable, STATUS_XATTR};
use verimount_source::Scratch;

use crate::{
    Disk,
    limits::{FOREVER, MAX_REQUEST, session},
};

/// The only file.
const DISK: &str = "disk";
const DISK_NODE: NodeId = NodeId(2);

/// The block size for `stat` and `statfs`, in bytes: a page, and the largest block of a volume. Loop
/// devices discard in multiples of it.
const UNIT: u32 = 4096;

/// The capabilities that are requested.
const CAPABILITIES: Capabilities = Capabilities::NO_OPENDIR_SUPPORT
    .union(Capabilities::DO_READDIRPLUS)
    .union(Capabilities::PARALLEL_DIROPS)
    .union(Capabilities::ASYNC_DIO)
    // Without it the kernel reads an extended attribute before each write.
    .union(Capabilities::HANDLE_KILLPRIV_V2)
    // Any volume has a file with the number of the disk.
    .union(Capabilities::NO_EXPORT_SUPPORT);

/// The disk bypasses the page cache. Programs that use a disk have a cache of their own; a second one
/// would hold the same data, cost a copy, and split writes. The page cache would also take a short read
/// for the end of the file and fill the rest with zeros.
const OPEN_FLAGS: OpenFlags = OpenFlags::DIRECT_IO
    .union(OpenFlags::PARALLEL_DIRECT_WRITES)
    .union(OpenFlags::NOFLUSH);

/// Owner and permissions of the disk.
#[derive(Debug, Clone, Copy)]
pub struct DiskAccess {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permissions, as in `stat`.
    pub mode: u32,
}

/// The adapter between FUSE and a [`Disk`]: a directory with one file, `disk`, which behaves like
/// a block device.
pub struct VolumeFs {
    disk: Disk,
    access: DiskAccess,
    generation: Generation,
}

impl VolumeFs {
    /// Serves `disk`.
    pub fn new(disk: Disk, access: DiskAccess) -> Self {
        Self {
            disk,
            access,
            generation: Generation::random(),
        }
    }

    fn attr(&self, node: NodeId) -> Attr {
        let nanoseconds = self.disk.last_write();
        let written = Time {
            seconds: (nanoseconds / 1_000_000_000).cast_signed(),
            nanoseconds: (nanoseconds % 1_000_000_000) as u32,
        };
        let attr = Attr {
            ino: node.0,
            atime: written,
            mtime: written,
            ctime: written,
            nlink: 1,
            uid: self.access.uid,
            gid: self.access.gid,
            blksize: UNIT,
            ..Attr::default()
        };
        match node {
            DISK_NODE => Attr {
                size: self.disk.size(),
                blocks: self.disk.size() / 512,
                mode: FileType::RegularFile.as_raw_mode() | self.access.mode & 0o666,
                ..attr
            },
            _ => Attr {
                mode: FileType::Directory.as_raw_mode() | 0o555,
                ..attr
            },
        }
    }

    fn entry(&self, node: NodeId) -> Entry {
        Entry {
            node: Some(Node {
                id: node,
                generation: self.generation,
            }),
            attr: self.attr(node),
            entry_valid: FOREVER,
            attr_valid: FOREVER,
        }
    }
}

impl Mountable for VolumeFs {
    fn session_options(&self) -> SessionOptions {
        // Large requests are faster with threads that may run on any processor.
        session(CAPABILITIES, Answering::ByThreads)
    }
}

impl FileSystem for VolumeFs {
    type Scratch = Scratch;

    fn lookup(&self, _: Caller, (parent, name): EntryName<'_>) -> Result<Entry, Errno> {
        match (parent, name.to_str()) {
            (NodeId::ROOT, Some(DISK)) => Ok(self.entry(DISK_NODE)),
            _ => Err(Errno::NOENT),
        }
    }

    fn getattr(&self, node: NodeId) -> Result<(Attr, Duration), Errno> {
        Ok((self.attr(node), FOREVER))
    }

    fn setattr(
        &self,
        _: Caller,
        node: NodeId,
        changes: &SetAttr,
        _: Option<Handle>,
    ) -> Result<(Attr, Duration), Errno> {
        if changes.mode.or(changes.uid).or(changes.gid).is_some() {
            return Err(Errno::PERM);
        }
        match changes.size {
            // Without effect, as `O_TRUNC` is for a block device.
            None | Some(0) => {}
            Some(size) if size == self.disk.size() => {}
            Some(_) => return Err(Errno::INVAL),
        }
        Ok((self.attr(node), FOREVER))
    }

    fn open(&self, _: Caller, _: NodeId, _: OFlags) -> Result<Opened, Errno> {
        Ok(Opened {
            handle: Handle(0),
            flags: OPEN_FLAGS,
            backing: 0,
        })
    }

    fn read<'s>(&self, _: NodeId, read: Read, scratch: &'s mut Scratch) -> Result<&'s [u8], Errno> {
        let len = read.size.min(MAX_REQUEST);
        self.disk.read(read.offset, len, scratch)
    }

    fn write(&self, _: NodeId, write: Write, data: &[u8]) -> Result<u32, Errno> {
        // The size is constant, so the kernel's offset is right for an appending write, too.
        let written = self.disk.write(data, write.offset)?;
        if write
            .flags
            .intersects(ReadWriteFlags::DSYNC | ReadWriteFlags::SYNC)
        {
            self.disk.flush()?;
        }
        Ok(written as u32)
    }

    fn fsync(&self, _: NodeId, _: Handle, _: bool) -> Result<(), Errno> {
        self.disk.flush()
    }

    fn fallocate(
        &self,
        _: NodeId,
        _: Handle,
        offset: u64,
        len: u64,
        mode: FallocateFlags,
    ) -> Result<(), Errno> {
        self.disk.allocate(mode, offset, len)
    }

    fn readdir(&self, _: NodeId, position: u64, names: &mut Names) -> Result<(), Errno> {
        let entries = [(".", NodeId::ROOT), ("..", NodeId::ROOT), (DISK, DISK_NODE)];
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        for (next, (name, node)) in (1..).zip(entries).skip(position) {
            let mut entry = self.entry(node);
            if node == NodeId::ROOT {
                // Only listed: the kernel does not count a lookup of `.` and `..`.
                entry.node = None;
            }
            let name = Name {
                name: OsStr::new(name),
                ino: node.0,
                mode: entry.attr.mode,
                next,
            };
            if !names.add(name, || entry) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self, _: NodeId) -> Result<StatFs, Errno> {
        Ok(StatFs {
            block_size: UNIT,
            io_size: UNIT,
            blocks: self.disk.size().div_ceil(UNIT.into()),
            name_max: DISK.len() as u32,
            ..StatFs::default()
        })
    }

    fn getxattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        if node != NodeId::ROOT || name != STATUS_XATTR {
            return Err(Errno::NODATA);
        }
        self.disk.status().to_json()
    }

    fn listxattr(&self, _: Caller, node: NodeId) -> Result<Vec<u8>, Errno> {
        match node {
            NodeId::ROOT => Ok(format!("{STATUS_XATTR}\0").into_bytes()),
            _ => Ok(Vec::new()),
        }
    }
}
