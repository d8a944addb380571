mod structures;

use std::{
    ffi::OsStr,
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use rustix::{fs::OFlags, io::Errno};
use verimount_fuse::{
    Answering, Attr, Caller, Capabilities, Connection, Entry, EntryName, FileSystem, Generation,
    Handle, Names, Node, NodeId, OpenFlags, Opened, Read, SessionOptions,
};
use verimount_mount::{IMAGE, Mountable, STATUS_XATTR};
use verimount_source::Scratch;
use verimount_tree::SingleFile;

use self::structures::Structures;
use crate::{
    Served, VerifiedTree,
    image_fs::values::{file, fuse_attr, no_entry},
    limits::{FOREVER, MAX_REQUEST, session},
};

/// None that lets the kernel stack this mount on others: it would not mount EROFS over it.
const CAPABILITIES: Capabilities = Capabilities::NO_OPENDIR_SUPPORT
    .union(Capabilities::EXPLICIT_INVAL_DATA)
    .union(Capabilities::REQUEST_TIMEOUT)
    .union(Capabilities::NO_EXPORT_SUPPORT);

/// How long a request may take, in seconds. A reader in the kernel's file system cannot be aborted otherwise, if this process is stopped.
/// No read of content on other machines takes as long, unless its `--timeout` is more than minutes.
const REQUEST_TIMEOUT: u16 = 3600;

/// The adapter between FUSE and an image that the kernel reads itself: a directory with one file.
pub struct NativeFs {
    tree: Arc<VerifiedTree>,
    served: Served,
    structures: OnceLock<Structures>,
}

impl NativeFs {
    /// Serves the file of `tree`, a [`SingleFile`], which `served` describes.
    pub fn new(tree: VerifiedTree, served: Served) -> Self {
        Self {
            tree: Arc::new(tree),
            served,
            structures: OnceLock::new(),
        }
    }
}

impl Mountable for NativeFs {
    fn session_options(&self) -> SessionOptions {
        SessionOptions {
            // Nothing is written; this is the kernel's minimum.
            max_write: 4096,
            request_timeout: REQUEST_TIMEOUT,
            ..session(CAPABILITIES, Answering::ByThreads)
        }
    }

    fn agreed(&self, _: Capabilities, connection: Connection) -> io::Result<()> {
        let structures = Structures::start(&self.tree, connection)?;
        let _ = self.structures.set(structures);
        Ok(())
    }
}

impl FileSystem for NativeFs {
    type Scratch = Scratch;

    fn unmounted(&self) {
        self.tree.close();
    }

    fn lookup(&self, _: Caller, (_, name): EntryName<'_>) -> Result<Entry, Errno> {
        if name != IMAGE {
            return Ok(no_entry());
        }
        let attr = self.tree.attr(SingleFile::FILE)?;
        Ok(Entry {
            node: Some(Node {
                id: NodeId(attr.node.get()),
                generation: Generation::new(0),
            }),
            attr: fuse_attr(&attr),
            ..no_entry()
        })
    }

    fn getattr(&self, node: NodeId) -> Result<(Attr, Duration), Errno> {
        Ok((fuse_attr(&self.tree.attr(file(node)?)?), FOREVER))
    }

    fn open(&self, _: Caller, _: NodeId, _: OFlags) -> Result<Opened, Errno> {
        // Content is cached once, as that of the files in the image. The pages of structures are kept.
        Ok(Opened {
            handle: Handle(0),
            flags: OpenFlags::DIRECT_IO | OpenFlags::KEEP_CACHE,
            backing: 0,
        })
    }

    fn read<'s>(
        &self,
        node: NodeId,
        read: Read,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Errno> {
        if let Some(structures) = self.structures.get() {
            structures.asked(read.offset, read.size);
        }
        let size = read.size.min(MAX_REQUEST) as usize;
        Ok(self.tree.read(file(node)?, read.offset, size, scratch)?)
    }

    fn readdir(&self, _: NodeId, _: u64, _: &mut Names) -> Result<(), Errno> {
        Ok(())
    }

    fn getxattr(&self, _: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        if name == STATUS_XATTR {
            return self.tree.status(self.served.clone(), None).to_json();
        }
        Err(Errno::NODATA)
    }
}
