//! The commands of `/dev/fuse`, from `linux/fuse.h`.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

use crate::ioctl::ioctl;

/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`.
const CLONE: u32 = 0x8004_e500;

/// `FUSE_DEV_IOC_BACKING_OPEN`: `_IOW(229, 1, struct fuse_backing_map)`.
const BACKING_OPEN: u32 = 0x4010_e501;

/// `FUSE_DEV_IOC_BACKING_CLOSE`: `_IOW(229, 2, uint32_t)`.
const BACKING_CLOSE: u32 = 0x4004_e502;

/// `struct fuse_backing_map`.
#[repr(C)]
struct BackingMap {
    fd: i32,
    flags: u32,
    padding: u64,
}

/// Connects `device`, a newly opened `/dev/fuse`, to the mount that `other` is connected to.
///
/// # Errors
/// `EINVAL` if one is not a FUSE device, or not in that state.
pub fn clone_fuse_device(device: impl AsFd, other: impl AsFd) -> io::Result<()> {
    let other = other.as_fd().as_raw_fd();
    // SAFETY: the kernel reads one 32-bit number, which lives until the call returns, and keeps no
    // pointer. Both descriptors are borrowed, so they stay open.
    unsafe { ioctl(device, CLONE, ptr::from_ref(&other).cast()) }.map(drop)
}

/// Registers `file` as a backing file with the mount of `device`; returns its backing id.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN` or without passthrough, `ELOOP` for too many stacked file
/// systems, `EOPNOTSUPP` for a file that cannot be passed through.
pub fn open_fuse_backing(device: impl AsFd, file: impl AsFd) -> io::Result<i32> {
    let map = BackingMap {
        fd: file.as_fd().as_raw_fd(),
        flags: 0,
        padding: 0,
    };
    // SAFETY: the kernel reads one `BackingMap`, laid out as it defines it, which lives until the
    // call returns, and keeps no pointer. It holds the file itself, not the descriptor.
    unsafe { ioctl(device, BACKING_OPEN, ptr::from_ref(&map).cast()) }
}

/// Undoes the registration; files that are open with it stay open.
///
/// # Errors
/// `ENOENT` if there is no such backing id.
pub fn close_fuse_backing(device: impl AsFd, id: i32) -> io::Result<()> {
    // SAFETY: the kernel reads one 32-bit number, which lives until the call returns, and keeps no
    // pointer.
    unsafe { ioctl(device, BACKING_CLOSE, ptr::from_ref(&id).cast()) }.map(drop)
}
