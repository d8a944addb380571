use std::{fs::File, io, os::unix::fs::FileExt};

/// A regular file whose end is being changed: writes behind it make the file longer.
///
/// What was written is read from then on, but survives a crash of the machine only once it was
/// flushed. Until then any part of it may be there and any part missing. A file is longer after a
/// crash only by what is there: a length never comes without the bytes at its end.
pub trait GrowingFile {
    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// What the system says; what the range then holds is unspecified.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file off after `len` bytes, or fills it up with zeros to so many.
    ///
    /// # Errors
    /// What the system says.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns when all writes and the length that there were before survive a crash.
    ///
    /// # Errors
    /// What the system says.
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
