//! Decodes requests, calls the file system and encodes its results.

use rustix::{
    fs::{FallocateFlags, OFlags, RenameFlags, XattrFlags},
    io::{Errno, ReadWriteFlags},
};
use zerocopy::{Immutable, IntoBytes};

use crate::{
    CopyRange, FileSystem, Handle, Names, NewFile, NodeId, Read, Seek, SetAttr, SetTime, Time,
    Write,
    abi::{self, opcode},
    request::Request,
    types::Valid,
};

/// `FUSE_FSYNC_FDATASYNC`.
const FSYNC_FDATASYNC: u32 = 1;

/// `FUSE_WRITE_CACHE`.
const WRITE_CACHE: u32 = 1;

/// Buffers that a thread reuses from request to request.
#[derive(Default)]
pub(crate) struct Thread<S> {
    scratch: S,
    names: Names,
    /// The encoded answer of operations that use none of the fields above.
    answer: Vec<u8>,
}

/// The answer to a request: bytes in a [`Thread`], or an error.
type Outcome<'t> = Result<&'t [u8], Errno>;

/// One request, and what is needed to answer it.
struct Exchange<'t, 'r, F: FileSystem> {
    fs: &'t F,
    request: Request<'r>,
    thread: &'t mut Thread<F::Scratch>,
}

/// Has `fs` perform a request. Returns the encoded answer, which does not borrow from the request.
///
/// # Errors
/// The error for the caller.
pub(crate) fn dispatch<'t, F: FileSystem>(
    fs: &'t F,
    request: Request<'_>,
    thread: &'t mut Thread<F::Scratch>,
) -> Outcome<'t> {
    let exchange = Exchange {
        fs,
        request,
        thread,
    };
    exchange.run()
}

impl<'t, F: FileSystem> Exchange<'t, '_, F> {
    fn run(self) -> Outcome<'t> {
        match self.request.header.opcode {
            opcode::READ => self.read(),
            opcode::WRITE => self.write(),
            opcode::LOOKUP => self.lookup(),
            opcode::GETATTR => self.getattr(),
            opcode::OPEN => self.open(),
            opcode::RELEASE => self.release(),
            opcode::CREATE => self.create(),
            opcode::FORGET => self.forget(),
            opcode::BATCH_FORGET => self.batch_forget(),
            opcode::READDIR => self.readdir(false),
            opcode::READDIRPLUS => self.readdir(true),
            opcode::READLINK => self.readlink(),
            opcode::SETATTR => self.setattr(),
            opcode::STATX => self.statx(),
            opcode::UNLINK => self.unlink(),
            opcode::RMDIR => self.rmdir(),
            opcode::MKDIR => self.mkdir(),
            opcode::MKNOD => self.mknod(),
            opcode::SYMLINK => self.symlink(),
            opcode::LINK => self.link(),
            opcode::RENAME => self.rename(),
            opcode::RENAME2 => self.rename2(),
            opcode::TMPFILE => self.tmpfile(),
            opcode::GETXATTR => self.getxattr(),
            opcode::LISTXATTR => self.listxattr(),
            opcode::SETXATTR => self.setxattr(),
            opcode::REMOVEXATTR => self.removexattr(),
            opcode::FSYNC => self.fsync(),
            opcode::FSYNCDIR => self.fsyncdir(),
            opcode::STATFS => self.statfs(),
            opcode::FALLOCATE => self.fallocate(),
            opcode::LSEEK => self.lseek(),
            opcode::COPY_FILE_RANGE => self.copy_file_range(),
            opcode::COPY_FILE_RANGE_64 => self.copy_file_range_64(),
            opcode::IOCTL => self.ioctl(),
            opcode::DESTROY => self.done(|_| Ok(())),
            // After ENOSYS the kernel sends no more of most others. OPENDIR: a listing needs no handle. FLUSH: errors of
            // writing are reported by FSYNC. INTERRUPT: `Watch` finds killed callers by itself.
            _ => Err(Errno::NOSYS),
        }
    }

    fn value(self, value: &(impl IntoBytes + Immutable)) -> Outcome<'t> {
        let answer = &mut self.thread.answer;
        answer.clear();
        answer.extend_from_slice(value.as_bytes());
        Ok(answer)
    }

    fn bytes(self, bytes: Vec<u8>) -> Outcome<'t> {
        self.thread.answer = bytes;
        Ok(&self.thread.answer)
    }

    /// Answers an operation that returns nothing.
    fn done(self, operation: impl FnOnce(&F) -> Result<(), Errno>) -> Outcome<'t> {
        operation(self.fs)?;
        Ok(&[])
    }

    fn new_file(&self, mode: u32, umask: u32) -> NewFile {
        let caller = self.request.caller();
        NewFile {
            caller,
            mode,
            umask,
        }
    }

    fn lookup(mut self) -> Outcome<'t> {
        let (caller, entry) = (self.request.caller(), self.request.take_entry_name()?);
        let entry = self.fs.lookup(caller, entry)?;
        self.value(&abi::EntryOut::from(&entry))
    }

    fn forget(mut self) -> Outcome<'t> {
        if let Ok(forget) = self.request.take::<abi::ForgetIn>() {
            self.fs.forget(self.request.node(), forget.nlookup);
        }
        Ok(&[])
    }

    fn batch_forget(mut self) -> Outcome<'t> {
        if let Ok(batch) = self.request.take::<abi::BatchForgetIn>() {
            for _ in 0..batch.count {
                let Ok(one) = self.request.take::<abi::ForgetOne>() else {
                    break;
                };
                self.fs.forget(NodeId(one.nodeid), one.nlookup);
            }
        }
        Ok(&[])
    }

    fn getattr(self) -> Outcome<'t> {
        let attr = self.fs.getattr(self.request.node())?;
        self.value(&abi::AttrOut::from(&attr))
    }

    fn statx(self) -> Outcome<'t> {
        let attr = self.fs.statx(self.request.node())?;
        self.value(&abi::StatxOut::from(&attr))
    }

    fn setattr(mut self) -> Outcome<'t> {
        let args: abi::SetattrIn = self.request.take()?;
        let (caller, node) = (self.request.caller(), self.request.node());
        let (changes, open) = changes(&args);
        let attr = self.fs.setattr(caller, node, &changes, open)?;
        self.value(&abi::AttrOut::from(&attr))
    }

    fn readlink(self) -> Outcome<'t> {
        let node = self.request.node();
        self.fs.readlink(node, &mut self.thread.scratch)
    }

    fn symlink(mut self) -> Outcome<'t> {
        let (caller, entry) = (self.request.caller(), self.request.take_entry_name()?);
        let target = self.request.take_name()?;
        let entry = self.fs.symlink(caller, entry, target)?;
        self.value(&abi::EntryOut::from(&entry))
    }

    fn mknod(mut self) -> Outcome<'t> {
        let args: abi::MknodIn = self.request.take()?;
        let new = self.new_file(args.mode, args.umask);
        let name = self.request.take_entry_name()?;
        let entry = self.fs.mknod(name, new, args.rdev)?;
        self.value(&abi::EntryOut::from(&entry))
    }

    fn mkdir(mut self) -> Outcome<'t> {
        let args: abi::MkdirIn = self.request.take()?;
        let new = self.new_file(args.mode, args.umask);
        let name = self.request.take_entry_name()?;
        let entry = self.fs.mkdir(name, new)?;
        self.value(&abi::EntryOut::from(&entry))
    }

    fn unlink(mut self) -> Outcome<'t> {
        let (caller, entry) = (self.request.caller(), self.request.take_entry_name()?);
        self.done(|fs| fs.unlink(caller, entry))
    }

    fn rmdir(mut self) -> Outcome<'t> {
        let (caller, entry) = (self.request.caller(), self.request.take_entry_name()?);
        self.done(|fs| fs.rmdir(caller, entry))
    }

    fn rename(mut self) -> Outcome<'t> {
        let args: abi::RenameIn = self.request.take()?;
        self.rename_to(NodeId(args.newdir), RenameFlags::empty())
    }

    fn rename2(mut self) -> Outcome<'t> {
        let args: abi::Rename2In = self.request.take()?;
        self.rename_to(
            NodeId(args.newdir),
            RenameFlags::from_bits_retain(args.flags),
        )
    }

    fn rename_to(mut self, directory: NodeId, flags: RenameFlags) -> Outcome<'t> {
        let from = self.request.take_entry_name()?;
        let to = (directory, self.request.take_name()?);
        let caller = self.request.caller();
        self.done(|fs| fs.rename(caller, from, to, flags))
    }

    fn link(mut self) -> Outcome<'t> {
        let args: abi::LinkIn = self.request.take()?;
        let (caller, entry) = (self.request.caller(), self.request.take_entry_name()?);
        let entry = self.fs.link(caller, NodeId(args.oldnodeid), entry)?;
        self.value(&abi::EntryOut::from(&entry))
    }

    fn open(mut self) -> Outcome<'t> {
        let args: abi::OpenIn = self.request.take()?;
        let (caller, node) = (self.request.caller(), self.request.node());
        let flags = OFlags::from_bits_retain(args.flags);
        let opened = self.fs.open(caller, node, flags)?;
        self.value(&abi::OpenOut::from(&opened))
    }

    fn create(mut self) -> Outcome<'t> {
        let args: abi::CreateIn = self.request.take()?;
        let new = self.new_file(args.mode, args.umask);
        let name = self.request.take_entry_name()?;
        let flags = OFlags::from_bits_retain(args.flags);
        let created = self.fs.create(name, new, flags)?;
        self.value(&abi::CreateOut::from(&created))
    }

    fn tmpfile(mut self) -> Outcome<'t> {
        let args: abi::CreateIn = self.request.take()?;
        let new = self.new_file(args.mode, args.umask);
        let flags = OFlags::from_bits_retain(args.flags);
        let created = self.fs.tmpfile(self.request.node(), new, flags)?;
        self.value(&abi::CreateOut::from(&created))
    }

    fn read(mut self) -> Outcome<'t> {
        let args: abi::ReadIn = self.request.take()?;
        let read = Read {
            handle: Handle(args.fh),
            offset: args.offset,
            size: args.size,
            // Direct I/O has an owner of locks, which may concern it.
            is_cached: args.read_flags & abi::READ_LOCKOWNER == 0,
        };
        let node = self.request.node();
        self.fs.read(node, read, &mut self.thread.scratch)
    }

    fn write(mut self) -> Outcome<'t> {
        let args: abi::WriteIn = self.request.take()?;
        let data = self.request.take_bytes(args.size)?;
        let write = Write {
            handle: Handle(args.fh),
            offset: args.offset,
            mapped: is_mapped(&args),
            flags: write_flags(&args),
        };
        let size = self.fs.write(self.request.node(), write, data)?;
        self.value(&abi::WriteOut { size, padding: 0 })
    }

    fn release(mut self) -> Outcome<'t> {
        let args: abi::ReleaseIn = self.request.take()?;
        self.fs.release(Handle(args.fh));
        Ok(&[])
    }

    fn fsync(mut self) -> Outcome<'t> {
        let args: abi::FsyncIn = self.request.take()?;
        let (node, data_only) = (self.request.node(), args.fsync_flags & FSYNC_FDATASYNC != 0);
        self.done(|fs| fs.fsync(node, Handle(args.fh), data_only))
    }

    fn fallocate(mut self) -> Outcome<'t> {
        let args: abi::FallocateIn = self.request.take()?;
        let (node, handle) = (self.request.node(), Handle(args.fh));
        let mode = FallocateFlags::from_bits_retain(args.mode);
        self.done(|fs| fs.fallocate(node, handle, args.offset, args.length, mode))
    }

    fn lseek(mut self) -> Outcome<'t> {
        let args: abi::LseekIn = self.request.take()?;
        let (node, handle) = (self.request.node(), Handle(args.fh));
        let to = Seek::from_whence(args.whence).ok_or(Errno::INVAL)?;
        let offset = self.fs.lseek(node, handle, args.offset, to)?;
        self.value(&abi::LseekOut { offset })
    }

    fn copy_range(&mut self) -> Result<u64, Errno> {
        let args: abi::CopyFileRangeIn = self.request.take()?;
        self.fs.copy_file_range(&CopyRange {
            from: Handle(args.fh_in),
            from_offset: args.off_in,
            to: Handle(args.fh_out),
            to_offset: args.off_out,
            len: args.len,
        })
    }

    fn copy_file_range(mut self) -> Outcome<'t> {
        // The kernel asks for less than 4 GiB here.
        let size = u32::try_from(self.copy_range()?).map_err(|_| Errno::IO)?;
        self.value(&abi::WriteOut { size, padding: 0 })
    }

    fn copy_file_range_64(mut self) -> Outcome<'t> {
        let bytes_copied = self.copy_range()?;
        self.value(&abi::CopyFileRangeOut { bytes_copied })
    }

    fn readdir(mut self, wants_entries: bool) -> Outcome<'t> {
        let args: abi::ReadIn = self.request.take()?;
        let (node, names) = (self.request.node(), &mut self.thread.names);
        names.restart(args.size, wants_entries);
        self.fs.readdir(node, args.offset, names)?;
        Ok(self.thread.names.records())
    }

    fn fsyncdir(mut self) -> Outcome<'t> {
        let args: abi::FsyncIn = self.request.take()?;
        let (node, data_only) = (self.request.node(), args.fsync_flags & FSYNC_FDATASYNC != 0);
        self.done(|fs| fs.fsyncdir(node, data_only))
    }

    fn statfs(self) -> Outcome<'t> {
        let usage = self.fs.statfs(self.request.node())?;
        self.value(&abi::StatfsOut::from(&usage))
    }

    fn setxattr(mut self) -> Outcome<'t> {
        let args: abi::SetxattrIn = self.request.take()?;
        let name = self.request.take_name()?;
        let value = self.request.take_bytes(args.size)?;
        let (caller, node) = (self.request.caller(), self.request.node());
        let flags = XattrFlags::from_bits_retain(args.flags);
        self.done(|fs| fs.setxattr(caller, node, name, value, flags))
    }

    fn getxattr(mut self) -> Outcome<'t> {
        let args: abi::GetxattrIn = self.request.take()?;
        let name = self.request.take_name()?;
        let value = self.fs.getxattr(self.request.node(), name)?;
        self.xattr(value, args.size)
    }

    fn listxattr(mut self) -> Outcome<'t> {
        let args: abi::GetxattrIn = self.request.take()?;
        let (caller, node) = (self.request.caller(), self.request.node());
        let names = self.fs.listxattr(caller, node)?;
        self.xattr(names, args.size)
    }

    /// A caller that passes a buffer of size 0 wants the size of the value.
    fn xattr(self, value: Vec<u8>, room: u32) -> Outcome<'t> {
        let size = u32::try_from(value.len()).map_err(|_| Errno::TOOBIG)?;
        match room {
            0 => self.value(&abi::GetxattrOut { size, padding: 0 }),
            room if size <= room => self.bytes(value),
            _ => Err(Errno::RANGE),
        }
    }

    fn removexattr(mut self) -> Outcome<'t> {
        let name = self.request.take_name()?;
        let (caller, node) = (self.request.caller(), self.request.node());
        self.done(|fs| fs.removexattr(caller, node, name))
    }

    fn ioctl(mut self) -> Outcome<'t> {
        let args: abi::IoctlIn = self.request.take()?;
        let output = self.fs.ioctl(self.request.node(), args.cmd)?;
        if output.len() > args.out_size as usize {
            return Err(Errno::OVERFLOW);
        }
        self.bytes([abi::IoctlOut::default().as_bytes(), &output].concat())
    }
}

fn is_mapped(args: &abi::WriteIn) -> bool {
    args.write_flags & WRITE_CACHE != 0
}

fn write_flags(args: &abi::WriteIn) -> ReadWriteFlags {
    let opened = OFlags::from_bits_retain(args.flags);
    // `O_SYNC` consists of two bits; one of them is `O_DSYNC`, for which rustix has no correct constant.
    let mut flags = if opened.contains(OFlags::SYNC) {
        ReadWriteFlags::SYNC
    } else if opened.intersects(OFlags::SYNC) {
        ReadWriteFlags::DSYNC
    } else {
        ReadWriteFlags::empty()
    };
    let is_append = !is_mapped(args) && opened.contains(OFlags::APPEND);
    flags.set(ReadWriteFlags::APPEND, is_append);
    flags
}

/// The changes that a SETATTR requests, and the open file by which they are made.
fn changes(args: &abi::SetattrIn) -> (SetAttr, Option<Handle>) {
    let valid = Valid::from_bits_retain(args.valid);
    let time = |set, now, seconds: u64, nanoseconds| {
        let at = SetTime::At(Time {
            // The field is unsigned, but holds the bits of a signed number.
            seconds: seconds as i64,
            nanoseconds,
        });
        let time = if valid.contains(now) {
            SetTime::Now
        } else {
            at
        };
        valid.contains(set).then_some(time)
    };
    let changes = SetAttr {
        mode: valid.contains(Valid::MODE).then_some(args.mode),
        uid: valid.contains(Valid::UID).then_some(args.uid),
        gid: valid.contains(Valid::GID).then_some(args.gid),
        size: valid.contains(Valid::SIZE).then_some(args.size),
        atime: time(Valid::ATIME, Valid::ATIME_NOW, args.atime, args.atimensec),
        mtime: time(Valid::MTIME, Valid::MTIME_NOW, args.mtime, args.mtimensec),
    };
    (
        changes,
        valid.contains(Valid::FH).then_some(Handle(args.fh)),
    )
}
