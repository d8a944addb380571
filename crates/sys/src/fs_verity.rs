//! The kernel's digest of a file with fs-verity, from `linux/fsverity.h`.

use std::{io, os::fd::AsFd, ptr};

use crate::ioctl::ioctl;

/// Asks for a file's digest: `_IOWR('f', 134, struct fsverity_digest)`.
pub const FS_IOC_MEASURE_VERITY: u32 = 0xc004_6686;

/// The longest digest that Linux supports, in bytes: that of SHA-512.
const MAX_DIGEST_LEN: u16 = 64;

/// `struct fsverity_digest`, with room for the digest.
#[repr(C)]
struct Measured {
    algorithm: u16,
    size: u16,
    digest: [u8; MAX_DIGEST_LEN as usize],
}

/// The number of the hash (1 is SHA-256, 2 is SHA-512) and the digest with which the kernel verifies
/// each read of `file`. `None` for a file without fs-verity.
///
/// # Errors
/// As the ioctl, except those that mean "without fs-verity".
pub fn measure_verity(file: impl AsFd) -> io::Result<Option<(u16, Vec<u8>)>> {
    let mut measured = Measured {
        algorithm: 0,
        size: MAX_DIGEST_LEN,
        digest: [0; MAX_DIGEST_LEN as usize],
    };
    let argument = ptr::from_mut(&mut measured).cast_const().cast();
    // SAFETY: the kernel reads `size`, and writes the two numbers and behind them at most `size` bytes,
    // for all of which there is room until the call returns; it keeps no pointer. The pointer was made
    // from a mutable reference.
    match unsafe { ioctl(file, FS_IOC_MEASURE_VERITY, argument) } {
        Ok(_) => {
            let digest = measured.digest.get(..measured.size.into());
            Ok(digest.map(|digest| (measured.algorithm, digest.to_vec())))
        }
        // Not enabled for this file; not for this kind of file; not by this file system or kernel.
        Err(error) if is_unverified(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_unverified(error: &io::Error) -> bool {
    [libc::ENODATA, libc::ENOTTY, libc::EOPNOTSUPP]
        .map(Some)
        .contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel does verify takes a file system made for it, and is tested there.
    #[test]
    fn other_files_have_no_digest() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(measure_verity(&file).unwrap(), None);
        assert_eq!(measure_verity(io::stdin()).unwrap(), None);
    }
}
