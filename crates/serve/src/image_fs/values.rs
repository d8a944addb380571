//! Converts a tree's values into FUSE's.

use rustix::io::Errno;
use verimount_fuse::{Attr, Entry, NodeId, Time};
use verimount_tree::{self as tree, Timestamp};

use crate::limits::FOREVER;

/// The preferred size of a read, in bytes.
const READ_SIZE: u32 = 4096;

/// A negative entry, valid as long as the mount. In a listing: an entry without attributes.
pub(super) const NO_ENTRY: Entry = Entry {
    node: None,
    generation: 0,
    attr: NOTHING,
    entry_valid: FOREVER,
    attr_valid: FOREVER,
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

/// The tree's node for the kernel's.
///
/// # Errors
/// `ESTALE` for 0, which is never a node's number.
pub(super) fn file(node: NodeId) -> Result<tree::NodeId, Errno> {
    tree::NodeId::new(node.0).ok_or(Errno::STALE)
}

/// Node numbers are never reused, so the generation is constant.
pub(super) fn entry(node: tree::NodeId, attr: Attr) -> Entry {
    Entry {
        node: Some(NodeId(node.get())),
        attr,
        ..NO_ENTRY
    }
}

pub(super) fn fuse_attr(attr: &tree::Attr) -> Attr {
    Attr {
        ino: attr.node.get(),
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
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
