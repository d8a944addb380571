//! A mount's status, asked for by an ioctl. Only what mounts it here answers this one.

use std::{io, os::fd::AsFd, ptr};

use crate::ioctl::ioctl;

/// The longest status that an ioctl tells, in bytes: the number of an ioctl has room for no more.
const MAX_MOUNT_STATUS: usize = (1 << 14) - 1;

/// Asks the root directory of a mount for its status, as text: `_IOR(0xf7, 1, char[16383])`.
pub const IOC_MOUNT_STATUS: u32 = 2 << 30 | (MAX_MOUNT_STATUS as u32) << 16 | 0xf7 << 8 | 1;

/// The status of the mount whose root is `directory`.
///
/// # Errors
/// `ENOTTY` if there is none, `EOVERFLOW` if it is longer than an ioctl can return; otherwise the system's
/// error.
pub fn mount_status(directory: impl AsFd) -> io::Result<Vec<u8>> {
    let mut status = vec![0; MAX_MOUNT_STATUS];
    let argument = ptr::from_mut(status.as_mut_slice()).cast_const().cast();
    // SAFETY: a driver that knows this command writes at most the number of bytes that is encoded in it,
    // and the buffer has them until the call returns; no pointer is kept. The pointer was made from a mutable reference.
    unsafe { ioctl(directory, IOC_MOUNT_STATUS, argument) }?;
    // The rest was not written to.
    let len = status.iter().position(|&byte| byte == 0);
    status.truncate(len.unwrap_or(MAX_MOUNT_STATUS));
    Ok(status)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn other_directories_have_no_status() {
        let refused = mount_status(File::open("/").unwrap()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOTTY));
    }
}
