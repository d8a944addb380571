//! Encodes what a file system returns for the kernel.

use std::time::Duration;

use rustix::io::Errno;

use crate::{
    Attr, Entry, NodeId, Opened, StatFs, Time,
    abi::{self, AttrOut, CreateOut, EntryOut, OpenOut, OutHeader, StatfsOut, StatxOut, SxTime},
    device_parts,
};

/// `STATX_BASIC_STATS`: the fields of [`Attr`].
const STATX_BASIC: u32 = 0x7ff;

/// `STATX_BTIME`.
const STATX_BTIME: u32 = 0x800;

impl OutHeader {
    /// The header of an answer to the request `unique`.
    pub(crate) fn of(unique: u64, answer: Result<&[u8], Errno>) -> Self {
        Self {
            len: (size_of::<Self>() + answer.map_or(0, <[u8]>::len)) as u32,
            error: answer.map_or_else(|error| -error.raw_os_error(), |_| 0),
            unique,
        }
    }
}

impl From<&Attr> for abi::Attr {
    fn from(attr: &Attr) -> Self {
        Self {
            ino: attr.ino,
            size: attr.size,
            blocks: attr.blocks,
            // The kernel reads the fields as signed again.
            atime: attr.atime.seconds as u64,
            mtime: attr.mtime.seconds as u64,
            ctime: attr.ctime.seconds as u64,
            atimensec: attr.atime.nanoseconds,
            mtimensec: attr.mtime.nanoseconds,
            ctimensec: attr.ctime.nanoseconds,
            mode: attr.mode,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            blksize: attr.blksize,
            flags: 0,
        }
    }
}

impl From<&Entry> for EntryOut {
    fn from(entry: &Entry) -> Self {
        let (nodeid, generation) = match entry.node {
            None => (0, 0),
            // The kernel knows it without having looked it up.
            Some(node) if node.id == NodeId::ROOT => (node.id.0, 0),
            Some(node) => (node.id.0, node.generation.get().into()),
        };
        Self {
            nodeid,
            generation,
            entry_valid: entry.entry_valid.as_secs(),
            attr_valid: entry.attr_valid.as_secs(),
            entry_valid_nsec: entry.entry_valid.subsec_nanos(),
            attr_valid_nsec: entry.attr_valid.subsec_nanos(),
            attr: (&entry.attr).into(),
        }
    }
}

impl From<&Opened> for OpenOut {
    fn from(opened: &Opened) -> Self {
        Self {
            fh: opened.handle.0,
            open_flags: opened.flags.bits(),
            backing_id: opened.backing,
        }
    }
}

impl From<&(Entry, Opened)> for CreateOut {
    fn from((entry, opened): &(Entry, Opened)) -> Self {
        Self {
            entry: entry.into(),
            open: opened.into(),
        }
    }
}

impl From<&(Attr, Duration)> for AttrOut {
    fn from((attr, valid): &(Attr, Duration)) -> Self {
        Self {
            attr_valid: valid.as_secs(),
            attr_valid_nsec: valid.subsec_nanos(),
            dummy: 0,
            attr: attr.into(),
        }
    }
}

impl From<Time> for SxTime {
    fn from(time: Time) -> Self {
        Self {
            tv_sec: time.seconds,
            tv_nsec: time.nanoseconds,
            reserved: 0,
        }
    }
}

impl From<&(Attr, Duration)> for StatxOut {
    fn from((attr, valid): &(Attr, Duration)) -> Self {
        let (rdev_major, rdev_minor) = device_parts(attr.rdev);
        let birth = match attr.btime {
            Some(_) => STATX_BTIME,
            None => 0,
        };
        Self {
            attr_valid: valid.as_secs(),
            attr_valid_nsec: valid.subsec_nanos(),
            stat: abi::Statx {
                mask: STATX_BASIC | birth,
                blksize: attr.blksize,
                nlink: attr.nlink,
                uid: attr.uid,
                gid: attr.gid,
                // The type and the permissions are the lower 16 bits.
                mode: attr.mode as u16,
                ino: attr.ino,
                size: attr.size,
                blocks: attr.blocks,
                atime: attr.atime.into(),
                btime: attr.btime.unwrap_or_default().into(),
                ctime: attr.ctime.into(),
                mtime: attr.mtime.into(),
                rdev_major,
                rdev_minor,
                ..Default::default()
            },
            ..Default::default()
        }
    }
}

impl From<&StatFs> for StatfsOut {
    fn from(usage: &StatFs) -> Self {
        Self {
            blocks: usage.blocks,
            bfree: usage.blocks_free,
            bavail: usage.blocks_available,
            files: usage.files,
            ffree: usage.files_free,
            bsize: usage.io_size,
            namelen: usage.name_max,
            frsize: usage.block_size,
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generation, Node};

    /// The kernel's handles of a file consist of both numbers; in that of the root the second one is 0 (`fuse_get_root_inode`).
    #[test]
    fn all_nodes_but_the_root_have_a_generation() {
        let encoded = |id, generation| {
            let entry = EntryOut::from(&Entry {
                node: Some(Node { id, generation }),
                attr: Attr::default(),
                entry_valid: Duration::ZERO,
                attr_valid: Duration::ZERO,
            });
            (entry.nodeid, entry.generation)
        };
        let generation = Generation::new(0x8000_0001);
        assert_eq!(encoded(NodeId(7), generation), (7, 0x8000_0001));
        assert_eq!(encoded(NodeId::ROOT, generation), (1, 0));
        assert_ne!(encoded(NodeId(7), Generation::new(0)).1, 0);
    }
}
