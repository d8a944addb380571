use std::{
    cell::RefCell,
    ffi::OsStr,
    io,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use verimount_image::{Attr, Error, FileKind, Inode, Tree};
use verimount_source::Scratch;

use crate::{STATUS_XATTR, VerifiedTree, errno::errno};

/// How long the kernel may keep names and attributes: they never change, so for as long as it
/// likes.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The largest request, in bytes: as much as the kernel puts into one.
const MAX_REQUEST: u32 = 1 << 20;

/// How many reads ahead the kernel may have under way at once.
const MAX_BACKGROUND: u16 = 128;

/// Every inode number stands for one file for as long as the mount lives.
const GENERATION: Generation = Generation(0);

/// `FS_IOC_MEASURE_VERITY`: `_IOWR('f', 134, struct fsverity_digest)`.
const FS_IOC_MEASURE_VERITY: u32 = 0xc004_6686;

thread_local! {
    /// What this thread reads file content into. It is handed to the kernel from here.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The adapter between the FUSE library and a [`VerifiedTree`].
pub struct ImageFs {
    tree: Arc<VerifiedTree>,
}

impl ImageFs {
    /// Serves `tree`.
    pub fn new(tree: Arc<VerifiedTree>) -> Self {
        Self { tree }
    }
}

impl Filesystem for ImageFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each is worth having alone; what this kernel lacks is done without.
        for capability in [
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_EXPLICIT_INVAL_DATA,
        ] {
            let _ = config.add_capabilities(capability);
        }
        // A value that is too large is answered with the largest there is.
        let largest = config.set_max_readahead(MAX_REQUEST);
        let _ = largest.or_else(|largest| config.set_max_readahead(largest));
        let _ = config.set_max_write(MAX_REQUEST);
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.tree.lookup(Inode(parent.0), name) {
            Ok(attr) => reply.entry(&FOREVER, &file_attr(&attr), GENERATION),
            // Inode 0 says, for as long, that there is none.
            Err(Error::NotFound) => reply.entry(&FOREVER, &no_file(), GENERATION),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.tree.attr(Inode(inode.0)) {
            Ok(attr) => reply.attr(&FOREVER, &file_attr(&attr)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        self.reply_content(inode, 0, MAX_REQUEST, reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Where the kernel knows NO_OPEN_SUPPORT it never asks again, and keeps pages cached.
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.reply_content(inode, offset, size, reply);
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.list(inode, offset, &mut |inode, next, attr, name| {
            reply.add(inode, next, attr.kind, name)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.list(inode, offset, &mut |inode, next, attr, name| {
            reply.add(inode, next, name, &FOREVER, attr, GENERATION)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        const BLOCK: u32 = 4096;
        let usage = self.tree.usage();
        let blocks = usage.bytes.div_ceil(BLOCK.into());
        let (free, files) = (0, 0);
        reply.statfs(
            blocks,
            free,
            free,
            files,
            free,
            BLOCK,
            usage.name_max,
            BLOCK,
        );
    }

    fn getxattr(&self, _: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if Inode(inode.0) != Inode::ROOT || name != STATUS_XATTR {
            return reply.error(Errno::ENODATA);
        }
        match serde_json::to_vec(&self.tree.status()) {
            Ok(status) => reply_xattr(&status, size, reply),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn listxattr(&self, _: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        match Inode(inode.0) {
            Inode::ROOT => reply_xattr(format!("{STATUS_XATTR}\0").as_bytes(), size, reply),
            _ => reply_xattr(&[], size, reply),
        }
    }

    fn ioctl(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        _: &[u8],
        out_size: u32,
        reply: ReplyIoctl,
    ) {
        if command != FS_IOC_MEASURE_VERITY {
            return reply.error(Errno::ENOTTY);
        }
        let Some(digest) = self.tree.measure(Inode(inode.0)) else {
            return reply.error(Errno::ENODATA);
        };
        // struct fsverity_digest: number of the hash, length of the digest, digest.
        let digest = digest.digest();
        let mut bytes = u16::from(digest.algorithm().number())
            .to_ne_bytes()
            .to_vec();
        bytes.extend((digest.as_bytes().len() as u16).to_ne_bytes());
        bytes.extend(digest.as_bytes());
        match bytes.len() <= out_size as usize {
            true => reply.ioctl(0, &bytes),
            false => reply.error(Errno::EOVERFLOW),
        }
    }
}

impl ImageFs {
    fn reply_content(&self, inode: INodeNo, offset: u64, size: u32, reply: ReplyData) {
        SCRATCH.with_borrow_mut(|scratch| {
            let size = size.min(MAX_REQUEST) as usize;
            match self.tree.read(Inode(inode.0), offset, size, scratch) {
                Ok(bytes) => reply.data(bytes),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    /// Gives the entries from position `offset` on to `add`, until it says that there is no room
    /// for more. The first two are `.` and `..`, for whose numbers the kernel has no use.
    fn list(
        &self,
        inode: INodeNo,
        offset: u64,
        add: &mut dyn FnMut(INodeNo, u64, &FileAttr, &OsStr) -> bool,
    ) -> Result<(), Error> {
        let directory = self.tree.directory(Inode(inode.0))?;
        let own = FileAttr {
            ino: inode,
            kind: FileType::Directory,
            ..no_file()
        };
        let dots = [(own, OsStr::new(".")), (own, OsStr::new(".."))];
        let entries = directory.entries().iter();
        let entries = entries.map(|entry| (file_attr(&entry.attr), &*entry.name));
        let position = usize::try_from(offset).unwrap_or(usize::MAX);
        for (next, (attr, name)) in (1..).zip(dots.into_iter().chain(entries)).skip(position) {
            if add(attr.ino, next, &attr, name) {
                break;
            }
        }
        Ok(())
    }
}

fn reply_xattr(value: &[u8], size: u32, reply: ReplyXattr) {
    match size as usize {
        0 => reply.size(value.len() as u32),
        room if value.len() <= room => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}

fn file_attr(attr: &Attr) -> FileAttr {
    let (kind, rdev) = match attr.kind {
        FileKind::Directory => (FileType::Directory, 0),
        FileKind::File => (FileType::RegularFile, 0),
        FileKind::Symlink => (FileType::Symlink, 0),
        FileKind::BlockDevice { major, minor } => (FileType::BlockDevice, device(major, minor)),
        FileKind::CharDevice { major, minor } => (FileType::CharDevice, device(major, minor)),
        FileKind::Socket => (FileType::Socket, 0),
        FileKind::Fifo => (FileType::NamedPipe, 0),
    };
    FileAttr {
        ino: INodeNo(attr.inode.0),
        size: attr.size,
        blocks: attr.size.div_ceil(512),
        kind,
        perm: attr.permissions,
        nlink: 1,
        rdev,
        blksize: 4096,
        ..no_file()
    }
}

/// A device number as FUSE has it, which is the kernel's `new_encode_dev`.
fn device(major: u16, minor: u16) -> u32 {
    let (major, minor) = (u32::from(major), u32::from(minor));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Attributes with everything zero; its inode number is no inode's.
fn no_file() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}
