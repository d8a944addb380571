use std::sync::Arc;

use crate::{ReadAt, WriteError};

/// Storage: bytes that can be read and written at any offset, by several threads at once.
///
/// A write is visible to later reads at once, but survives a crash of the machine only after a
/// flush. Until then, any part of it may be lost: writes that are not flushed have no order.
pub trait WriteAt: ReadAt {
    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// Any [`WriteError`]; the contents of the range are then unspecified.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError>;

    /// Writes all of `bytes` from `offset` on, and returns when they survive a crash. Other writes
    /// are not affected.
    ///
    /// # Errors
    /// As [`Self::write_all_at`].
    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write_all_at(bytes, offset)?;
        self.flush()
    }

    /// Makes `len` bytes from `offset` on read as zeros, and frees their space if the storage can.
    ///
    /// # Errors
    /// As [`Self::write_all_at`].
    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError>;

    /// Returns when all completed writes survive a crash.
    ///
    /// # Errors
    /// [`WriteError::Flush`].
    fn flush(&self) -> Result<(), WriteError>;

    /// A hint that [`Self::flush`] will be called soon. Returns without waiting.
    ///
    /// A storage with a write cache begins to write it back, so that the flush has less to wait
    /// for. It does not make anything durable by itself.
    ///
    /// # Errors
    /// As [`Self::flush`], which may not report the same error again.
    fn begin_flush(&self) -> Result<(), WriteError> {
        Ok(())
    }
}

/// Checks that `len` bytes from `offset` on lie inside a storage of `size` bytes.
///
/// # Errors
/// [`WriteError::PastEnd`] if they do not.
pub(crate) fn check_write(offset: u64, len: u64, size: u64) -> Result<(), WriteError> {
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(WriteError::PastEnd { offset, len, size }),
    }
}

impl<S: WriteAt + ?Sized> WriteAt for Arc<S> {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        (**self).write_all_at(bytes, offset)
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        (**self).write_durable_at(bytes, offset)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        (**self).zero(offset, len)
    }

    fn flush(&self) -> Result<(), WriteError> {
        (**self).flush()
    }

    fn begin_flush(&self) -> Result<(), WriteError> {
        (**self).begin_flush()
    }
}
