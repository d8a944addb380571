use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    ptr,
};

use crate::checked::checked;

/// Number of `cachestat`, the same on all architectures that Rust supports on Linux.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct Statistics {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages of a file's range are in the page cache. `len` is in bytes; 0 would mean the
/// whole file to the kernel, and must not be used.
///
/// # Errors
/// `EPERM` for another user's file, `ENOSYS` before Linux 6.5, `EOPNOTSUPP` for a file that has no
/// page cache.
pub fn cached_pages(file: impl AsFd, offset: u64, len: u64) -> io::Result<u64> {
    let range = Range { offset, len };
    let mut statistics = Statistics::default();
    // SAFETY: the kernel reads one `Range` and writes one `Statistics`, both laid out as it defines
    // them and alive until the call returns; it keeps neither pointer. The descriptor is borrowed,
    // so it stays open, and the call has no other effect.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            ptr::from_ref(&range),
            ptr::from_mut(&mut statistics),
            0u32,
        )
    };
    checked(result).map(|_| statistics.cached)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::fd::AsFd};

    use super::*;

    #[test]
    fn written_pages_are_cached() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 10 * 4096]).unwrap();
        match cached_pages(file.as_fd(), 4096, 3 * 4096) {
            Ok(pages) => assert_eq!(pages, 3),
            // Before Linux 6.5.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
        }
    }
}
