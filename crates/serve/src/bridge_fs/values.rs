//! Converts FUSE's values into a mirror's and back.

use rustix::io::ReadWriteFlags;
use verimount_bridge::{self as bridge, Changes, NewFile, NewTime};
use verimount_fuse::{
    Attr, Caller, CreateMode, Durability, Name, NodeId, SetAttr, SetTime, Time, Write,
    device_number,
};

pub(super) fn inner(node: NodeId) -> bridge::NodeId {
    bridge::NodeId(node.0)
}

pub(super) fn inner_caller(caller: Caller) -> bridge::Caller {
    bridge::Caller {
        uid: caller.uid,
        gid: caller.gid,
        pid: caller.pid,
    }
}

pub(super) fn new_file(caller: Caller, mode: CreateMode) -> NewFile {
    NewFile {
        caller: inner_caller(caller),
        mode: mode.mode,
        umask: mode.umask,
    }
}

pub(super) fn inner_changes(changes: &SetAttr) -> Changes {
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

/// The flags of `pwritev2` for a write. A file that was opened with `O_SYNC` or `O_DSYNC` is not synced
/// twice.
pub(super) fn write_flags(write: &Write) -> ReadWriteFlags {
    let durability = match write.durability {
        Durability::None => ReadWriteFlags::empty(),
        Durability::Data => ReadWriteFlags::DSYNC,
        Durability::DataAndAttributes => ReadWriteFlags::SYNC,
    };
    let append = if write.append {
        ReadWriteFlags::APPEND
    } else {
        ReadWriteFlags::empty()
    };
    append | durability
}

pub(super) fn name<'l>(listed: &bridge::Listed<'l>) -> Name<'l> {
    Name {
        name: listed.name,
        ino: listed.inode,
        mode: listed.file_type.as_raw_mode(),
        next: listed.next,
    }
}

pub(super) fn time(time: bridge::Timestamp) -> Time {
    Time {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    }
}

pub(super) fn fuse_attr(found: &bridge::Attr) -> Attr {
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
