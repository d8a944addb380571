//! Attributes of files, as Python makes an `os.stat_result` of them.

use verimount::{Metadata, Timestamp};

/// Mode, inode number, number of names, owner, group, size, times, blocks, and the numbers of a device.
///
/// The times are those of reading, of changing the content and of changing the file, in nanoseconds since 1970.
pub(crate) type Attributes = (
    u32,
    u64,
    u32,
    u32,
    u32,
    u64,
    (i128, i128, i128),
    u64,
    (u32, u32),
);

pub(crate) fn attributes(metadata: &Metadata) -> Attributes {
    let times = (
        nanoseconds(metadata.atime()),
        nanoseconds(metadata.mtime()),
        nanoseconds(metadata.ctime()),
    );
    (
        metadata.mode(),
        metadata.ino(),
        metadata.nlink(),
        metadata.uid(),
        metadata.gid(),
        metadata.len(),
        times,
        metadata.blocks(),
        metadata.device(),
    )
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds()) * 1_000_000_000 + i128::from(time.nanoseconds())
}
