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
const CAPABILITIES: Capabilities = Capabilities::ASYNC_DIO
    .union(Capabilities::NO_OPENDIR_SUPPORT)
    .union(Capabilities::EXPLICIT_INVAL_DATA)
    .union(Capabilities::REQUEST_TIMEOUT)
    .union(Capabilities::NO_EXPORT_SUPPORT);

/// How long a request may take at least before the kernel gives up the mount: a reader in its file system cannot be aborted otherwise, if
/// this process is stopped.
const DEADLINE: Duration = Duration::from_secs(3600);

/// How many things a request waits for, at most, that can each take as long as their origin's patience: data and blocks of the tree, and
/// all once more if they do not match.
const AWAITED: u32 = 8;

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
            request_timeout: request_timeout(self.tree.patience()),
            ..session(CAPABILITIES, Answering::ByThreads)
        }
    }

    fn agreed(&self, _: Capabilities, connection: Connection) -> io::Result<()> {
        let structures = Structures::start(&self.tree, connection)?;
        let _ = self.structures.set(structures);
        Ok(())
    }
}

/// The time for a request in seconds; 0 without a limit, as the kernel has none that is as long.
fn request_timeout(patience: Duration) -> u16 {
    let most = patience.saturating_mul(AWAITED).max(DEADLINE);
    u16::try_from(most.as_secs()).unwrap_or(0)
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
        if let Some(structures) = self.structures.get().filter(|_| read.is_cached) {
            structures.asked(read.offset);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_may_take_longer_than_its_content() {
        let timeout = |seconds| request_timeout(Duration::from_secs(seconds));
        assert_eq!([0, 60, 450, 451].map(timeout), [3600, 3600, 3600, 3608]);
        assert_eq!([8191, 8192, 86_400].map(timeout), [65_528, 0, 0]);
        assert_eq!(request_timeout(Duration::MAX), 0);
    }
}
