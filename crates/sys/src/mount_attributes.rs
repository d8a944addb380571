use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use crate::checked::checked;

/// `struct mount_attr`, as of its first version.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

const _: () = assert!(size_of::<Attributes>() == 32);

const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_NOSYMFOLLOW: u64 = 0x0020_0000;

/// Isolates a mount, given a descriptor of its root: mounts do not propagate into it, its symbolic
/// links are not followed, its devices cannot be opened, and if `read_only`, nothing in it can be
/// changed.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`, `EINVAL` if it is not the root of a mount.
pub fn seclude_mount(root: impl AsFd, read_only: bool) -> io::Result<()> {
    let read_only = if read_only { MOUNT_ATTR_RDONLY } else { 0 };
    let attributes = Attributes {
        set: MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSYMFOLLOW | read_only,
        clear: 0,
        propagation: libc::MS_PRIVATE,
        user_namespace: 0,
    };
    // SAFETY: the kernel reads an empty string that ends in NUL and one `Attributes`, whose size it
    // is told, and keeps no pointer; the descriptor is borrowed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            root.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    };
    checked(result).map(drop)
}
