use std::{ops::Range, sync::Arc};

use crate::{ReadError, Scratch};

/// Bytes that can be read at any offset, by several threads at once.
pub trait ReadAt: Send + Sync {
    /// The number of bytes, fixed when the source was opened.
    fn size(&self) -> u64;

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// Any [`ReadError`]; the contents of `buf` are then unspecified and must not be used.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError>;

    /// The `len` bytes from `offset` on, somewhere in `scratch`, which grows as needed.
    ///
    /// A layer that reads whole blocks anyway returns part of its own buffer, without another copy.
    ///
    /// # Errors
    /// As [`Self::read_exact_at`].
    fn read_borrowed<'s>(
        &self,
        scratch: &'s mut Scratch,
        offset: u64,
        len: usize,
    ) -> Result<&'s [u8], ReadError> {
        // Checked before the buffer grows, so that an absurd length costs nothing.
        check_range(offset, len, self.size())?;
        let buf = scratch.grown(len);
        self.read_exact_at(buf, offset)?;
        Ok(buf)
    }

    /// A hint that `len` bytes from `offset` on will be read soon. Returns without waiting.
    ///
    /// A source that can start the I/O early does so; in this way, reads of several ranges overlap.
    /// Ranges outside the source and failures are ignored.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// A hint that a sequential reader will read on over the `len` bytes from `offset`, perhaps not to the end. Returns
    /// without waiting.
    ///
    /// Sources from which bytes take long get them ahead of the reader. [`ReadAhead`](crate::ReadAhead) decides what is
    /// announced, and each layer hands it down.
    fn will_reach(&self, offset: u64, len: u64) {
        self.will_need(offset, len);
    }

    /// A hint that sequential readers of what is before `offset` do not read on over it: what follows is of another kind, such
    /// as the content of files behind their inodes. It replaces an earlier one, and is for [`ReadAhead`](crate::ReadAhead) only.
    fn will_stop(&self, offset: u64) {
        let _ = offset;
    }

    /// A hint that these bytes are one content, such as that of a file, of which some are about to be read: who reads no other
    /// one does not read on over its end. For [`ReadAhead`](crate::ReadAhead) only.
    fn will_end(&self, content: Range<u64>) {
        let _ = content;
    }
}

/// Checks that `len` bytes from `offset` on lie inside a source of `size` bytes.
///
/// # Errors
/// [`ReadError::PastEnd`] if they do not.
pub fn check_range(offset: u64, len: usize, size: u64) -> Result<(), ReadError> {
    let end = u64::try_from(len)
        .ok()
        .and_then(|len| offset.checked_add(len));
    match end {
        Some(end) if end <= size => Ok(()),
        _ => Err(ReadError::PastEnd { offset, len, size }),
    }
}

/// Implements [`ReadAt`](crate::ReadAt) for pointers to sources, each with its generic parameters in brackets: everything is
/// handed on.
#[macro_export]
macro_rules! forward_read_at {
    ($([$($generics:tt)*] $pointer:ty),*) => {$(
        impl<$($generics)*> $crate::ReadAt for $pointer {
            fn size(&self) -> u64 {
                $crate::ReadAt::size(&**self)
            }

            fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), $crate::ReadError> {
                $crate::ReadAt::read_exact_at(&**self, buf, offset)
            }

            fn read_borrowed<'s>(
                &self,
                scratch: &'s mut $crate::Scratch,
                offset: u64,
                len: usize,
            ) -> Result<&'s [u8], $crate::ReadError> {
                $crate::ReadAt::read_borrowed(&**self, scratch, offset, len)
            }

            fn will_need(&self, offset: u64, len: u64) {
                $crate::ReadAt::will_need(&**self, offset, len);
            }

            fn will_reach(&self, offset: u64, len: u64) {
                $crate::ReadAt::will_reach(&**self, offset, len);
            }

            fn will_stop(&self, offset: u64) {
                $crate::ReadAt::will_stop(&**self, offset);
            }

            fn will_end(&self, content: ::std::ops::Range<u64>) {
                $crate::ReadAt::will_end(&**self, content);
            }
        }
    )*};
}

forward_read_at!(
    [S: ReadAt + ?Sized] &S,
    [S: ReadAt + ?Sized] Arc<S>,
    [S: ReadAt + ?Sized] Box<S>,
    [] Vec<u8>
);
