use std::{ffi::OsStr, io, ops::ControlFlow, sync::Arc, time::Duration};

use rustix::{fs::FileType, io::Errno};
use verimount_fuse::{
    Agreement, Answering, Attr, Caller, Capabilities, Connection, Entry, FileSystem, Handle, Name,
    Names, NamesPlus, NodeId, Opened, Read, StatFs, Time, Wishes, device_number,
};
use verimount_image::{self as image, Error, FileKind, Inode, Tree};
use verimount_source::Scratch;
use verimount_sys::FS_IOC_MEASURE_VERITY;

use crate::{Mountable, STATUS_XATTR, Served, VerifiedTree, errno::errno};

/// How long the kernel may keep names and attributes: they never change, so for as long as it
/// likes.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The largest request, in bytes: as much as the kernel puts into one.
const MAX_REQUEST: u32 = 1 << 20;

/// How many reads ahead the kernel may have under way at once.
const MAX_BACKGROUND: u16 = 128;

/// What an image wants from the kernel: what never changes may be kept, and need not be opened.
const WISHES: Wishes = Wishes {
    capabilities: Capabilities::NO_OPEN_SUPPORT
        .union(Capabilities::NO_OPENDIR_SUPPORT)
        .union(Capabilities::DO_READDIRPLUS)
        .union(Capabilities::READDIRPLUS_AUTO)
        .union(Capabilities::PARALLEL_DIROPS)
        .union(Capabilities::CACHE_SYMLINKS)
        .union(Capabilities::EXPLICIT_INVAL_DATA),
    max_read: MAX_REQUEST,
    // Nothing is written; the kernel asks for room for a page.
    max_write: 4096,
    max_readahead: MAX_REQUEST,
    max_background: MAX_BACKGROUND,
    max_stack_depth: 0,
    // Large reads gain more from threads that any processor may run.
    answering: Answering::ByThreads,
};

/// The adapter between FUSE and a [`VerifiedTree`].
pub struct ImageFs {
    tree: Arc<VerifiedTree>,
    served: Served,
}

impl ImageFs {
    /// Serves `tree`, which is what `served` tells of.
    pub fn new(tree: Arc<VerifiedTree>, served: Served) -> Self {
        Self { tree, served }
    }
}

impl Mountable for ImageFs {
    fn wishes(&self) -> Wishes {
        WISHES
    }

    fn agreed(&self, _: &Agreement, _: Connection) -> io::Result<()> {
        Ok(())
    }
}

impl FileSystem for ImageFs {
    type Scratch = Scratch;

    fn lookup(&self, _: Caller, parent: NodeId, name: &OsStr) -> Result<Entry, Errno> {
        match self.tree.lookup(inode(parent), name) {
            Ok(attr) => Ok(entry(&attr)),
            Err(Error::NotFound) => Ok(NO_ENTRY),
            Err(error) => Err(errno(&error)),
        }
    }

    fn getattr(&self, node: NodeId, _: Option<Handle>) -> Result<(Attr, Duration), Errno> {
        let attr = self.tree.attr(inode(node)).map_err(|e| errno(&e))?;
        Ok((fuse_attr(&attr), FOREVER))
    }

    fn readlink<'s>(&self, node: NodeId, scratch: &'s mut Scratch) -> Result<&'s [u8], Errno> {
        let target = self.tree.readlink(inode(node), scratch);
        target.map_err(|error| errno(&error))
    }

    fn open(&self, _: Caller, _: NodeId, _: u32) -> Result<Opened, Errno> {
        // The kernel never asks again, and keeps pages cached.
        Err(Errno::NOSYS)
    }

    fn opendir(&self, _: Caller, _: NodeId, _: u32) -> Result<Opened, Errno> {
        Err(Errno::NOSYS)
    }

    fn read<'s>(
        &self,
        node: NodeId,
        read: Read,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Errno> {
        let size = read.size.min(MAX_REQUEST) as usize;
        let content = self.tree.read(inode(node), read.offset, size, scratch);
        content.map_err(|error| errno(&error))
    }

    fn readdir(
        &self,
        node: NodeId,
        _: Handle,
        position: u64,
        names: &mut Names,
    ) -> Result<(), Errno> {
        self.list(node, position, &mut |name, _| names.add(name))
    }

    fn readdirplus(
        &self,
        node: NodeId,
        _: Handle,
        position: u64,
        names: &mut NamesPlus,
    ) -> Result<(), Errno> {
        self.list(node, position, &mut |name, entry| names.add(name, entry))
    }

    fn statfs(&self, _: NodeId) -> Result<StatFs, Errno> {
        const BLOCK: u32 = 4096;
        let usage = self.tree.usage();
        Ok(StatFs {
            block_size: BLOCK,
            io_size: BLOCK,
            blocks: usage.bytes.div_ceil(BLOCK.into()),
            name_max: usage.name_max,
            ..Default::default()
        })
    }

    fn getxattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        if node != NodeId::ROOT || name != STATUS_XATTR {
            return Err(Errno::NODATA);
        }
        self.tree.status(self.served.clone()).to_json()
    }

    fn listxattr(&self, _: Caller, node: NodeId) -> Result<Vec<u8>, Errno> {
        match node {
            NodeId::ROOT => Ok(format!("{STATUS_XATTR}\0").into_bytes()),
            _ => Ok(Vec::new()),
        }
    }

    fn ioctl(&self, node: NodeId, _: Handle, command: u32, _: &[u8]) -> Result<Vec<u8>, Errno> {
        if command != FS_IOC_MEASURE_VERITY {
            return Err(Errno::NOTTY);
        }
        let digest = self.tree.measure(inode(node)).ok_or(Errno::NODATA)?;
        let digest = digest.digest();
        // struct fsverity_digest: number of the hash, length of the digest, digest.
        let mut bytes = u16::from(digest.algorithm().number())
            .to_ne_bytes()
            .to_vec();
        bytes.extend((digest.as_bytes().len() as u16).to_ne_bytes());
        bytes.extend(digest.as_bytes());
        Ok(bytes)
    }
}

impl ImageFs {
    /// Gives the entries from `position` on to `add`, until it says that there is no room for more.
    /// The first two are `.` and `..`, for whose numbers the kernel has no use.
    fn list(
        &self,
        node: NodeId,
        position: u64,
        add: &mut dyn FnMut(Name<'_>, &Entry) -> bool,
    ) -> Result<(), Errno> {
        let dots = [".", ".."].into_iter().zip(1..);
        for (name, next) in dots.skip(position.min(DOTS) as usize) {
            let mode = DOT.attr.mode;
            let (name, ino) = (OsStr::new(name), node.0);
            if !add(
                Name {
                    name,
                    ino,
                    mode,
                    next,
                },
                &DOT,
            ) {
                return Ok(());
            }
        }
        let mut next = position.max(DOTS);
        let mut give = |name: &OsStr, attr: &image::Attr| {
            let entry = entry(attr);
            let (ino, mode) = (entry.attr.ino, entry.attr.mode);
            next += 1;
            if add(
                Name {
                    name,
                    ino,
                    mode,
                    next,
                },
                &entry,
            ) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let first = position.saturating_sub(DOTS);
        let listed = self.tree.list(inode(node), first, &mut give);
        listed.map_err(|error| errno(&error))
    }
}

fn inode(node: NodeId) -> Inode {
    Inode(node.0)
}

/// Says, for as long as the mount lives, that there is no file of a name.
const NO_ENTRY: Entry = Entry {
    node: None,
    generation: 0,
    attr: NOTHING,
    entry_valid: FOREVER,
    attr_valid: FOREVER,
};

/// How many entries come before those of the tree.
const DOTS: u64 = 2;

/// `.` or `..`, which are listed and no more.
const DOT: Entry = Entry {
    attr: Attr {
        mode: FileType::Directory.as_raw_mode(),
        ..NOTHING
    },
    ..NO_ENTRY
};

/// Attributes with everything zero.
const NOTHING: Attr = Attr {
    ino: 0,
    size: 0,
    blocks: 0,
    atime: EPOCH,
    mtime: EPOCH,
    ctime: EPOCH,
    mode: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 0,
};

const EPOCH: Time = Time {
    seconds: 0,
    nanoseconds: 0,
};

/// Every number stands for one file for as long as the mount lives.
fn entry(attr: &image::Attr) -> Entry {
    Entry {
        node: Some(NodeId(attr.inode.0)),
        attr: fuse_attr(attr),
        ..NO_ENTRY
    }
}

fn fuse_attr(attr: &image::Attr) -> Attr {
    let (kind, rdev) = match attr.kind {
        FileKind::Directory => (FileType::Directory, 0),
        FileKind::File => (FileType::RegularFile, 0),
        FileKind::Symlink => (FileType::Symlink, 0),
        FileKind::BlockDevice { major, minor } => (FileType::BlockDevice, device(major, minor)),
        FileKind::CharDevice { major, minor } => (FileType::CharacterDevice, device(major, minor)),
        FileKind::Socket => (FileType::Socket, 0),
        FileKind::Fifo => (FileType::Fifo, 0),
    };
    Attr {
        ino: attr.inode.0,
        size: attr.size,
        blocks: attr.size.div_ceil(512),
        mode: kind.as_raw_mode() | u32::from(attr.permissions),
        nlink: 1,
        rdev,
        blksize: 4096,
        ..NOTHING
    }
}

fn device(major: u16, minor: u16) -> u32 {
    device_number(major.into(), minor.into())
}
