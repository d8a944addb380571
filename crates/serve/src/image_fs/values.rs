//! Converts a tree's values into FUSE's.

use rustix::io::Errno;
use verimount_fuse::{Attr, Entry, NodeId, Time};
use verimount_tree::{self as tree, Timestamp};

use crate::limits::FOREVER;

/// The preferred size of a read, in bytes.
const READ_SIZE: u32 = 4096;

/// A negative entry, valid as long as the mount. In a listing: an entry without attributes.
pub(crate) fn no_entry() -> Entry {
    Entry {
        node: None,
        attr: Attr::default(),
        entry_valid: FOREVER,
        attr_valid: FOREVER,
    }
}

/// The tree's node for the kernel's.
///
/// # Errors
/// `ESTALE` for a number that no node has.
pub(crate) fn file(node: NodeId) -> Result<tree::NodeId, Errno> {
    tree::NodeId::new(node.0).ok_or(Errno::STALE)
}

pub(crate) fn fuse_attr(attr: &tree::Attr) -> Attr {
    Attr {
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        btime: None,
        mode: attr.mode(),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev.encoded(),
        blksize: READ_SIZE,
    }
}

fn time(time: Timestamp) -> Time {
    Time {
        seconds: time.seconds(),
        nanoseconds: time.nanoseconds(),
    }
}
