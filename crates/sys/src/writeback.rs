use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

use crate::checked::checked;

/// Begins to write back a file's dirty pages, without waiting. An error that it reports may not be
/// reported again by `fsync`.
///
/// # Errors
/// Those of the writes: `ENOSPC`, `EIO`; `ESPIPE` for a file without a page cache, `ENOSYS` if the
/// system has no such call.
pub fn begin_writeback(file: impl AsFd) -> io::Result<()> {
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: the call takes only numbers, no memory of ours. The descriptor is borrowed, so it
    // stays open.
    let result = unsafe { libc::sync_file_range(descriptor, 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    checked(result).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn only_files_can_be_written_back() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 10 * 4096]).unwrap();
        begin_writeback(&file).unwrap();
        let (pipe, _) = io::pipe().unwrap();
        let error = begin_writeback(&pipe).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESPIPE));
    }
}
