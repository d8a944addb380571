use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, IoSlice},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use rustix::{
    fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek},
    io::{Errno, ReadWriteFlags, pwritev2},
};
use verimount_sys::begin_writeback;

use crate::{FileSource, ReadAt, ReadError, WriteAt, WriteError, write_at::check_write};

/// How much is written at a time where zeros have to be written, in bytes.
const ZEROS: usize = 1 << 20;

/// A regular file or block device to read and write, or only to read, which no other process writes
/// meanwhile.
#[derive(Debug)]
pub struct FileStorage {
    source: FileSource,
}

impl FileStorage {
    /// Opens `path` for reading and writing, and locks it until the storage is dropped.
    ///
    /// # Errors
    /// What `open` says; [`io::ErrorKind::ResourceBusy`] if it is in use already: locked by another
    /// storage, or a block device that is mounted or part of another; and as [`FileSource::new`].
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_for(path, true)
    }

    /// Opens `path` for reading only, and keeps others from writing, but not from reading, until the
    /// storage is dropped. All writes and flushes fail.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_read_only(path: &Path) -> io::Result<Self> {
        Self::open_for(path, false)
    }

    fn open_for(path: &Path, writing: bool) -> io::Result<Self> {
        // Of a block device, EXCL asks for the claim that a mount of it would have. NONBLOCK: not
        // waiting for somebody to read it, if it is a named pipe: it is then refused.
        let file = OpenOptions::new()
            .read(true)
            .write(writing)
            .custom_flags((OFlags::EXCL | OFlags::NONBLOCK).bits() as i32)
            .open(path)?;
        let source = FileSource::new(file)?.reading_directly();
        let locked = if writing {
            source.file().try_lock()
        } else {
            source.file().try_lock_shared()
        };
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::new(
                io::ErrorKind::ResourceBusy,
                "it is in use by another process",
            ),
            TryLockError::Error(error) => error,
        })?;
        Ok(Self { source })
    }

    /// Whether it is known without reading it that all of it is zero: nothing was ever written to a
    /// new sparse file.
    pub fn is_known_zero(&self) -> bool {
        matches!(seek(self.file(), SeekFrom::Data(0)), Err(Errno::NXIO))
    }

    fn file(&self) -> &File {
        self.source.file()
    }

    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS.min(usize::try_from(len).unwrap_or(ZEROS))];
        for done in (0..len).step_by(ZEROS) {
            let step = (len - done).min(ZEROS as u64) as usize;
            self.file().write_all_at(&zeros[..step], offset + done)?;
        }
        Ok(())
    }
}

impl ReadAt for FileStorage {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.source.read_exact_at(buf, offset)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.source.will_need(offset, len);
    }
}

impl WriteAt for FileStorage {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        let len = bytes.len() as u64;
        check_write(offset, len, self.size())?;
        self.file()
            .write_all_at(bytes, offset)
            .map_err(WriteError::io(offset, len))
    }

    /// Makes only these bytes durable, not all that the file has in the page cache.
    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        let len = bytes.len() as u64;
        check_write(offset, len, self.size())?;
        write_all_dsync(self.file(), bytes, offset).map_err(WriteError::io(offset, len))
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        check_write(offset, len, self.size())?;
        if len == 0 {
            return Ok(());
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(self.file(), punch, offset, len) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(offset, len),
            Err(error) => Err(error.into()),
        }
        .map_err(WriteError::io(offset, len))
    }

    fn flush(&self) -> Result<(), WriteError> {
        self.file().sync_data().map_err(WriteError::Flush)
    }

    fn begin_flush(&self) -> Result<(), WriteError> {
        match begin_writeback(self.file()) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            other => other.map_err(WriteError::Flush),
        }
    }
}

/// Writes bytes that survive a crash when this returns.
pub(crate) fn write_all_dsync(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let buf = [IoSlice::new(bytes)];
        match pwritev2(file, &buf, offset, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
