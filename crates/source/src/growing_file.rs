use std::{fs::File, io, os::unix::fs::FileExt};

/// A regular file whose end is being changed: writes behind it make the file longer.
///
/// A write is visible to later reads at once, but survives a crash of the machine only after
/// [`Self::sync_all`]. Until then, any part of it may be lost. After a crash, a file never has a
/// new length without the bytes written at its end.
pub trait GrowingFile {
    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// As `pwrite`; the contents of the range are then unspecified.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Truncates the file to `len` bytes, or extends it with zeros to this length.
    ///
    /// # Errors
    /// As `ftruncate`.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns when all earlier writes and length changes survive a crash.
    ///
    /// # Errors
    /// As `fsync`.
    fn sync_all(&self) -> io::Result<()>;
}

impl GrowingFile for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn sync_all(&self) -> io::Result<()> {
        Self::sync_all(self)
    }
}
