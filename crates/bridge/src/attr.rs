use rustix::fs::{Statx, StatxFlags, StatxTimestamp};
use verimount_fuse::{Attr, Time, device_number};

/// A file's attributes, except those that belong to the mount.
pub(crate) fn attr(found: &Statx) -> Attr {
    let knows_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    Attr {
        ino: found.stx_ino,
        mode: found.stx_mode.into(),
        nlink: found.stx_nlink,
        uid: found.stx_uid,
        gid: found.stx_gid,
        rdev: device_number(found.stx_rdev_major, found.stx_rdev_minor),
        size: found.stx_size,
        blocks: found.stx_blocks,
        blksize: found.stx_blksize,
        atime: time(found.stx_atime),
        mtime: time(found.stx_mtime),
        ctime: time(found.stx_ctime),
        btime: knows_birth.then(|| time(found.stx_btime)),
    }
}

fn time(time: StatxTimestamp) -> Time {
    Time {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    }
}
