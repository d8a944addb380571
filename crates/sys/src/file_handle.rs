use std::{
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use crate::checked::checked;

/// `MAX_HANDLE_SZ`: the longest handle of any file system, in bytes.
const MAX_LEN: usize = 128;

/// `struct file_handle` with room for the longest handle.
#[repr(C)]
struct Raw {
    len: u32,
    kind: i32,
    bytes: [u8; MAX_LEN],
}

const _: () = assert!(size_of::<Raw>() == 8 + MAX_LEN);

/// A persistent reference to an inode of one file system, independent of its names and of whether
/// it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHandle {
    kind: i32,
    bytes: Box<[u8]>,
}

impl FileHandle {
    /// The handle of an open file, which may be open with `O_PATH` only.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the file system has no handles.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let mut raw = Raw {
            len: MAX_LEN as u32,
            kind: 0,
            bytes: [0; MAX_LEN],
        };
        let mut mount_id = 0;
        // SAFETY: the kernel reads `len` and writes at most that many bytes behind the header,
        // which is the room that `Raw` has; it writes one int to `mount_id`, and reads an empty
        // string that ends in NUL. It keeps no pointer, and the descriptor is borrowed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                file.as_fd().as_raw_fd(),
                c"".as_ptr(),
                &raw mut raw,
                &raw mut mount_id,
                libc::AT_EMPTY_PATH,
            )
        };
        checked(result)?;
        let len = (raw.len as usize).min(MAX_LEN);
        Ok(Self {
            kind: raw.kind,
            bytes: raw.bytes[..len].into(),
        })
    }

    /// Opens the file with `flags`, as for `open`. `mount` is any file of its file system that is
    /// open without `O_PATH`.
    ///
    /// # Errors
    /// `EPERM` without `CAP_DAC_READ_SEARCH`, `ESTALE` if the file is gone, and as `open`.
    pub fn open(&self, mount: impl AsFd, flags: i32) -> io::Result<OwnedFd> {
        let mut raw = Raw {
            len: self.bytes.len() as u32,
            kind: self.kind,
            bytes: [0; MAX_LEN],
        };
        raw.bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
        // SAFETY: the kernel reads the header and the `len` bytes behind it, all of them in `raw`,
        // and keeps no pointer; the descriptor is borrowed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_open_by_handle_at,
                mount.as_fd().as_raw_fd(),
                &raw mut raw,
                flags | libc::O_CLOEXEC,
            )
        };
        let descriptor = checked(result)?;
        // SAFETY: the descriptor, which is an int and not -1, is new and ours alone, so nobody else closes it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::unix::fs::MetadataExt};

    use verimount_testenv::skip;

    use super::*;

    #[test]
    fn a_handle_leads_back_to_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let Ok(handle) = FileHandle::of(&file) else {
            return skip("no file handles here");
        };
        std::fs::rename(&path, folder.path().join("renamed")).unwrap();
        match handle.open(File::open(folder.path()).unwrap(), libc::O_PATH) {
            Ok(found) => {
                let found = File::from(found).metadata().unwrap();
                assert_eq!(found.ino(), file.metadata().unwrap().ino());
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM)),
        }
    }
}
