use std::{
    ffi::OsStr,
    io,
    num::NonZeroUsize,
    os::fd::BorrowedFd,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{FallocateFlags, FileType, OFlags, RenameFlags, SeekFrom, XattrFlags},
    io::Errno,
};
use verimount_bridge::{
    self as bridge, Bridge, BridgedFile, Changes, DeviceNumber, Mirror, NewFile, NewTime,
    Passthrough, Register, policy::Policy,
};
use verimount_fuse::{
    Agreement, Attr, Backing, Caller, Capabilities, Connection, CopyRange, CreateMode, Entry,
    FileSystem, Handle, Name, Names, NamesPlus, NodeId, OpenFlags, Opened, Read, SetAttr, SetTime,
    StatFs, Statx, Time, Wishes, Write, device_number, device_parts,
};

use crate::{
    CachePolicy, Mountable, STATUS_XATTR, Status,
    handles::Handles,
    listings::Listings,
    unchanged::{LastSeen, Pages, Stamp},
};

/// The largest request, in bytes: as much as the kernel puts into one.
const MAX_REQUEST: u32 = 1 << 20;

/// How many requests that nobody waits for the kernel may have under way at once.
const MAX_BACKGROUND: u16 = 128;

/// How many threads answer on each processor through io_uring: one that waits for storage does not
/// hold up another.
const THREADS_PER_PROCESSOR: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// The longest value of an extended attribute, in bytes: the kernel's limit.
const MAX_XATTR: usize = 64 << 10;

/// Enough room for most values and lists of extended attributes, in bytes.
const USUAL_XATTR: usize = 256;

/// What the kernel agrees on with any mirror that can be written.
const CAPABILITIES: Capabilities = Capabilities::ATOMIC_O_TRUNC
    .union(Capabilities::ASYNC_DIO)
    .union(Capabilities::DO_READDIRPLUS)
    .union(Capabilities::READDIRPLUS_AUTO)
    .union(Capabilities::PARALLEL_DIROPS)
    .union(Capabilities::NO_OPENDIR_SUPPORT)
    // Access control lists on directories are inherited, so the umask is for us to apply.
    .union(Capabilities::POSIX_ACL)
    .union(Capabilities::DONT_MASK)
    .union(Capabilities::HANDLE_KILLPRIV_V2)
    .union(Capabilities::DIRECT_IO_ALLOW_MMAP);

/// Registers files with the kernel, once there is a connection to it.
#[derive(Clone, Default)]
pub struct Registrar(Arc<OnceLock<Connection>>);

impl Register for Registrar {
    type Id = Backing;

    fn register(&self, file: BorrowedFd<'_>) -> Result<Backing, Errno> {
        let connection = self.0.get().ok_or(Errno::PERM)?;
        let registered = connection.register(file);
        registered.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// How a bridge is served.
#[derive(Debug, Clone, Copy)]
pub struct BridgeOptions {
    /// How long the kernel may believe what it was told.
    pub cache: CachePolicy,
    /// Whether files are to be passed through.
    pub passthrough: Passthrough,
    /// Whether the source's file system is itself a layer above others.
    pub is_stacked: bool,
}

/// The adapter between FUSE and a [`Bridge`].
pub struct BridgeFs {
    bridge: Bridge<Registrar>,
    registrar: Registrar,
    options: BridgeOptions,
    files: Handles<Open>,
    listings: Listings,
    last_seen: LastSeen,
}

/// What a handle stands for.
struct Open {
    file: BridgedFile<Registrar>,
    /// What the kernel does with its pages when it has opened it.
    pages: Pages,
}

impl BridgeFs {
    /// Serves `mirror`, whose files are opened by `policy`.
    pub fn new(mirror: Mirror, policy: Policy, options: BridgeOptions) -> Self {
        let registrar = Registrar::default();
        Self {
            bridge: Bridge::new(mirror, policy, options.passthrough, registrar.clone()),
            registrar,
            options,
            files: Handles::default(),
            listings: Listings::default(),
            last_seen: LastSeen::default(),
        }
    }

    /// What is served.
    pub fn bridge(&self) -> &Bridge<Registrar> {
        &self.bridge
    }

    fn mirror(&self) -> &Mirror {
        self.bridge.mirror()
    }

    fn attr(&self, found: &bridge::Attr) -> (Attr, Duration) {
        (fuse_attr(found), self.options.cache.lifetime())
    }

    fn entry(&self, found: bridge::Entry) -> Entry {
        Entry {
            node: Some(NodeId(found.node.0)),
            // No number is ever used again.
            generation: 0,
            attr: fuse_attr(&found.attr),
            entry_valid: self.options.cache.lifetime(),
            attr_valid: self.options.cache.lifetime(),
        }
    }

    /// Says, for as long as names hold, that there is no file of one.
    fn no_entry(&self) -> Entry {
        Entry {
            node: None,
            generation: 0,
            attr: Attr::default(),
            entry_valid: self.options.cache.lifetime(),
            attr_valid: Duration::ZERO,
        }
    }

    fn opened(&self, file: BridgedFile<Registrar>) -> Opened {
        // No file system tells anything at close that it does not tell at fsync; so one round trip
        // less for each open.
        let mut flags = OpenFlags::NOFLUSH;
        let (backing, pages) = match file.backing() {
            Some(backing) => {
                flags |= OpenFlags::PASSTHROUGH;
                if file.file().is_writable() {
                    self.last_seen.forget(file.file().node());
                }
                (backing.id(), Pages::Keep)
            }
            None => {
                // While a write through the page cache is under way, a page that it has changed can
                // be dropped, and read anew before the write arrives here. So it goes past the cache.
                flags.set(OpenFlags::DIRECT_IO, file.file().is_writable());
                let pages = self.pages(file.file().node());
                flags.set(OpenFlags::KEEP_CACHE, pages == Pages::Keep);
                (0, pages)
            }
        };
        let handle = self.files.insert(Open { file, pages });
        Opened {
            handle,
            flags,
            backing,
        }
    }

    /// What is to be done with pages that the kernel may have of a file that is to be relayed.
    fn pages(&self, node: bridge::NodeId) -> Pages {
        let asked = SystemTime::now();
        match (self.options.cache, self.mirror().getattr(node)) {
            (CachePolicy::Strict, _) | (_, Err(_)) => Pages::Drop,
            (_, Ok(attr)) => self.last_seen.pages(node, Stamp::new(&attr), asked),
        }
    }

    /// Notes that the kernel, which asks for this file, has done with opening it.
    fn was_opened(&self, open: &Open) {
        if let Pages::DropBefore(stamp) = open.pages {
            self.last_seen.dropped(open.file.file().node(), stamp);
        }
    }

    /// Gives a part of a directory to `list`, which says where the next one begins; `None` at the
    /// end.
    fn list(
        &self,
        node: NodeId,
        position: u64,
        list: impl FnOnce(&bridge::OpenDirectory) -> Result<Option<u64>, Errno>,
    ) -> Result<(), Errno> {
        let directory = self.listings.take(self.mirror(), inner(node), position)?;
        if let Some(next) = list(&directory)? {
            self.listings.keep(directory, next);
        }
        Ok(())
    }
}

impl Mountable for BridgeFs {
    fn wishes(&self) -> Wishes {
        let mut capabilities = CAPABILITIES | self.options.cache.capabilities();
        capabilities.set(
            Capabilities::PASSTHROUGH,
            self.options.passthrough != Passthrough::Never,
        );
        Wishes {
            capabilities,
            max_read: MAX_REQUEST,
            max_write: MAX_REQUEST,
            max_readahead: MAX_REQUEST,
            max_background: MAX_BACKGROUND,
            max_stack_depth: 1 + u32::from(self.options.is_stacked),
            io_uring: Some(THREADS_PER_PROCESSOR),
        }
    }

    fn agreed(&self, agreement: &Agreement, connection: Connection) -> io::Result<()> {
        let has_it = agreement.capabilities.contains(Capabilities::PASSTHROUGH);
        if self.options.passthrough == Passthrough::Require && !has_it {
            return Err(io::Error::other(
                "this kernel does not pass files through (Linux 6.9 does)",
            ));
        }
        let _ = self.registrar.0.set(connection);
        self.bridge.probe_passthrough().map_err(|errno| {
            io::Error::other(format!(
                "the kernel does not pass files through here: {errno}"
            ))
        })
    }
}

impl FileSystem for BridgeFs {
    type Scratch = Vec<u8>;

    fn lookup(&self, _: Caller, parent: NodeId, name: &OsStr) -> Result<Entry, Errno> {
        match self.mirror().lookup(inner(parent), name) {
            Ok(found) => Ok(self.entry(found)),
            Err(Errno::NOENT) => Ok(self.no_entry()),
            Err(error) => Err(error),
        }
    }

    fn forget(&self, node: NodeId, count: u64) {
        self.bridge.forget(inner(node), count);
    }

    fn getattr(&self, node: NodeId, _: Option<Handle>) -> Result<(Attr, Duration), Errno> {
        Ok(self.attr(&self.mirror().getattr(inner(node))?))
    }

    fn statx(&self, node: NodeId, _: Option<Handle>) -> Result<(Statx, Duration), Errno> {
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
        parent: NodeId,
        name: &OsStr,
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
        parent: NodeId,
        name: &OsStr,
        mode: CreateMode,
        rdev: u32,
    ) -> Result<Entry, Errno> {
        let (major, minor) = device_parts(rdev);
        let made = self.mirror().mknod(
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
        parent: NodeId,
        name: &OsStr,
        mode: CreateMode,
    ) -> Result<Entry, Errno> {
        let made = self
            .mirror()
            .mkdir(inner(parent), name, new_file(caller, mode))?;
        Ok(self.entry(made))
    }

    fn unlink(&self, _: Caller, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.mirror().unlink(inner(parent), name)
    }

    fn rmdir(&self, _: Caller, parent: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.mirror().rmdir(inner(parent), name)
    }

    fn rename(
        &self,
        _: Caller,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        flags: u32,
    ) -> Result<(), Errno> {
        self.mirror().rename(
            (inner(from.0), from.1),
            (inner(to.0), to.1),
            RenameFlags::from_bits_retain(flags),
        )
    }

    fn link(&self, _: Caller, node: NodeId, parent: NodeId, name: &OsStr) -> Result<Entry, Errno> {
        let made = self.mirror().link(inner(node), inner(parent), name)?;
        Ok(self.entry(made))
    }

    fn open(&self, caller: Caller, node: NodeId, flags: u32) -> Result<Opened, Errno> {
        let flags = OFlags::from_bits_retain(flags);
        let file = self.bridge.open(inner(node), inner_caller(caller), flags)?;
        Ok(self.opened(file))
    }

    fn create(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: CreateMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        let flags = OFlags::from_bits_retain(flags);
        let new = new_file(caller, mode);
        let (made, file) = self.bridge.create(inner(parent), name, new, flags)?;
        Ok((self.entry(made), self.opened(file)))
    }

    fn tmpfile(
        &self,
        caller: Caller,
        parent: NodeId,
        mode: CreateMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        let flags = OFlags::from_bits_retain(flags);
        let new = new_file(caller, mode);
        let (made, file) = self.bridge.tmpfile(inner(parent), new, flags)?;
        Ok((self.entry(made), self.opened(file)))
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
        Ok(open.file.write(data, write.offset, write.append)? as u32)
    }

    fn release(&self, _: NodeId, handle: Handle) {
        if let Some(open) = self.files.remove(handle) {
            self.was_opened(&open);
        }
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

    fn lseek(&self, _: NodeId, handle: Handle, offset: u64, whence: u32) -> Result<u64, Errno> {
        const SEEK_DATA: u32 = 3;
        const SEEK_HOLE: u32 = 4;
        let to = match whence {
            SEEK_DATA => SeekFrom::Data(offset),
            SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        let open = self.files.get(handle)?;
        self.mirror().seek(open.file.file(), to)
    }

    fn copy_file_range(&self, range: &CopyRange) -> Result<u64, Errno> {
        let (from, to) = (self.files.get(range.from)?, self.files.get(range.to)?);
        let copied = self.mirror().copy_range(
            (from.file.file(), range.from_offset),
            (to.file.file(), range.to_offset),
            usize::try_from(range.len).unwrap_or(usize::MAX),
        )?;
        Ok(copied as u64)
    }

    fn opendir(&self, _: Caller, _: NodeId, _: u32) -> Result<Opened, Errno> {
        // The kernel never asks again; what it caches of a listing it compares by the directory's
        // time.
        Err(Errno::NOSYS)
    }

    fn readdir(
        &self,
        node: NodeId,
        _: Handle,
        position: u64,
        names: &mut Names,
    ) -> Result<(), Errno> {
        self.list(node, position, |directory| {
            let mut next = None;
            self.mirror().list(directory, position, &mut |listed| {
                let is_added = names.add(name(&listed));
                if is_added {
                    next = Some(listed.next);
                }
                is_added
            })?;
            Ok(next)
        })
    }

    fn readdirplus(
        &self,
        node: NodeId,
        _: Handle,
        position: u64,
        names: &mut NamesPlus,
    ) -> Result<(), Errno> {
        self.list(node, position, |directory| {
            let mut next = None;
            self.mirror()
                .list_plus(directory, position, &mut |listed| {
                    let entry = listed.entry.map(|found| self.entry(found));
                    let entry = entry.unwrap_or_else(|| self.no_entry());
                    let is_added = names.add(name(&listed), &entry);
                    if is_added {
                        next = Some(listed.next);
                    }
                    is_added
                })?;
            Ok(next)
        })
    }

    fn fsyncdir(&self, node: NodeId, _: Handle, data_only: bool) -> Result<(), Errno> {
        let directory = self.mirror().open_directory(inner(node))?;
        self.mirror().fsync_directory(&directory, data_only)
    }

    fn statfs(&self, node: NodeId) -> Result<StatFs, Errno> {
        let usage = self.mirror().statfs(inner(node))?;
        Ok(StatFs {
            // The counts are in units of the one; FUSE has 32 bits for either.
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
        _: Caller,
        node: NodeId,
        name: &OsStr,
        value: &[u8],
        flags: u32,
        kill_sgid: bool,
    ) -> Result<(), Errno> {
        let flags = XattrFlags::from_bits_retain(flags);
        self.mirror()
            .setxattr(inner(node), name, value, flags, kill_sgid)
    }

    fn getxattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        if node == NodeId::ROOT && name == STATUS_XATTR {
            let status = Status::Bridge(self.bridge.status());
            return serde_json::to_vec(&status).map_err(|_| Errno::IO);
        }
        with_room(|room| self.mirror().getxattr(inner(node), name, room))
    }

    fn listxattr(&self, caller: Caller, node: NodeId) -> Result<Vec<u8>, Errno> {
        let names = with_room(|room| self.mirror().listxattr(inner(node), room))?;
        Ok(match caller.uid {
            0 => names,
            // The kernel checks who reads such an attribute, but leaves the list to us.
            _ => without_trusted(&names),
        })
    }

    fn removexattr(&self, _: Caller, node: NodeId, name: &OsStr) -> Result<(), Errno> {
        self.mirror().removexattr(inner(node), name)
    }
}

/// Calls `read` with room for most values, and if that is too little, for any.
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

/// The names that do not begin as those do which only root may see.
fn without_trusted(names: &[u8]) -> Vec<u8> {
    let each = names.split_inclusive(|byte| *byte == 0);
    let seen = each.filter(|name| !name.starts_with(b"trusted."));
    seen.collect::<Vec<_>>().concat()
}

fn inner(node: NodeId) -> bridge::NodeId {
    bridge::NodeId(node.0)
}

fn inner_caller(caller: Caller) -> bridge::Caller {
    bridge::Caller {
        uid: caller.uid,
        gid: caller.gid,
        pid: caller.pid,
    }
}

fn new_file(caller: Caller, mode: CreateMode) -> NewFile {
    NewFile {
        caller: inner_caller(caller),
        mode: mode.mode,
        umask: mode.umask,
    }
}

fn inner_changes(changes: &SetAttr) -> Changes {
    let new_time = |time| match time {
        SetTime::Now => NewTime::Now,
        SetTime::At(at) => NewTime::At(bridge::Timestamp {
            seconds: at.seconds,
            nanoseconds: at.nanoseconds,
        }),
    };
    Changes {
        mode: changes.mode,
        uid: changes.uid,
        gid: changes.gid,
        size: changes.size,
        accessed: changes.atime.map(new_time),
        modified: changes.mtime.map(new_time),
    }
}

fn name<'l>(listed: &bridge::Listed<'l>) -> Name<'l> {
    Name {
        name: listed.name,
        ino: listed.inode,
        mode: listed.file_type.as_raw_mode(),
        next: listed.next,
    }
}

fn time(time: bridge::Timestamp) -> Time {
    Time {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    }
}

fn fuse_attr(found: &bridge::Attr) -> Attr {
    Attr {
        ino: found.inode,
        size: found.size,
        blocks: found.blocks,
        atime: time(found.accessed),
        mtime: time(found.modified),
        ctime: time(found.changed),
        mode: found.mode,
        nlink: found.links,
        uid: found.uid,
        gid: found.gid,
        rdev: device_number(found.device.major, found.device.minor),
        blksize: found.block_size,
    }
}
