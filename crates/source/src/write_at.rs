use std::sync::Arc;

use crate::{ReadAt, WriteError};

/// Storage: bytes that can be read and written at any offset, by several threads at once.
///
/// What was written is read from then on, but survives a crash of the machine only once it was
/// flushed. Until then any part of it may be there and any part missing: writes that are not
/// flushed have no order.
pub trait WriteAt: ReadAt {
    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// Any [`WriteError`]; what the range then holds is unspecified.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError>;

    /// Writes all of `bytes` from `offset` on, and returns when they survive a crash. It says
    /// nothing of other writes.
    ///
    /// # Errors
    /// As [`Self::write_all_at`].
    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write_all_at(bytes, offset)?;
        self.flush()
    }

    /// Makes `len` bytes from `offset` on read as zeros, and gives back their space where the
    /// storage can.
    ///
    /// # Errors
    /// As [`Self::write_all_at`].
    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError>;

    /// Returns when all writes that had returned before survive a crash.
    ///
    /// # Errors
    /// [`WriteError::Flush`].
    fn flush(&self) -> Result<(), WriteError>;

    /// Says that [`Self::flush`] will be called soon, and returns without waiting.
    ///
    /// A storage that holds writes back begins to carry them out, so that the flush has less to
    /// wait for. Nothing survives a crash before the flush.
    ///
    /// # Errors
    /// As [`Self::flush`], which need not say it again.
    fn begin_flush(&self) -> Result<(), WriteError> {
        Ok(())
    }
}

/// Checks that `len` bytes from `offset` on lie inside a storage of `size` bytes.
///
/// # Errors
/// [`WriteError::PastEnd`] where they do not.
pub(crate) fn check_write(offset: u64, len: u64, size: u64) -> Result<(), WriteError> {
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(WriteError::PastEnd { offset, len, size }),
    }
}

macro_rules! forward_write_at {
    ($($pointer:ty),*) => {$(
        impl<S: WriteAt + ?Sized> WriteAt for $pointer {
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
    )*};
}

forward_write_at!(&S, Arc<S>, Box<S>);
