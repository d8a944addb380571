use std::{io, ops::Range, sync::Arc, time::Duration};

use crate::{ReadError, Scratch};

/// How much [`ReadAt::stream`] reads at a time from sources that are near, in bytes.
const STREAMED: u64 = 1 << 20;

/// Bytes that can be read at any offset, by several threads at once.
pub trait ReadAt: Send + Sync {
    /// The number of bytes, fixed when the source was opened.
    fn size(&self) -> u64;

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// Any [`ReadError`]; the contents of `buf` are then unspecified and must not be used.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError>;

    /// Fills `buf` with the bytes from `offset` on, for a reader that can ask elsewhere: a source that gets its bytes
    /// from another machine fails as soon as it has trouble, or nothing has come for as long as `patience`. It goes on
    /// getting them: another read may find them there.
    ///
    /// # Errors
    /// As [`Self::read_exact_at`].
    fn read_within(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<(), ReadError> {
        let _ = patience;
        self.read_exact_at(buf, offset)
    }

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

    /// Gives the bytes of a range to `take`, in order and in pieces. Nothing of it will be read again, nor anything near it:
    /// a far source asks for no other bytes, and keeps none.
    ///
    /// # Errors
    /// As [`Self::read_exact_at`]. Some pieces may have been given before.
    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        let mut scratch = Scratch::default();
        let mut start = range.start;
        while start < range.end {
            let len = (range.end - start).min(STREAMED);
            take(self.read_borrowed(&mut scratch, start, len as usize)?);
            start += len;
        }
        Ok(())
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

    /// Says that what was read from the `len` bytes from `offset` on is wrong. Returns whether another read may
    /// return something else.
    ///
    /// A source that keeps copies drops those of this range, so that the next read gets it from further
    /// away. Whoever verifies bytes says so in the thread that has read them, and then reads again, up to
    /// [`copies`](Self::copies) times. Nothing else makes a stored byte change, so most sources have nothing to do.
    fn distrust(&self, offset: u64, len: u64) -> bool {
        let _ = (offset, len);
        false
    }

    /// How many further reads are worth it, at most, after the first has returned wrong bytes.
    fn copies(&self) -> u32 {
        1
    }

    /// Says that these are the right bytes from `offset` on, as was verified. A source that may change what it stores
    /// replaces what is wrong there, durably, now or soon.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] of a source that cannot be changed, and those of writing. What is stored is then as
    /// right or wrong as before, or mixed with what is right.
    fn mend(&self, offset: u64, right: &[u8]) -> io::Result<()> {
        let _ = (offset, right);
        Err(io::ErrorKind::Unsupported.into())
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

macro_rules! forward_read_at {
    ($($pointer:ty),*) => {$(
        impl<S: ReadAt + ?Sized> ReadAt for $pointer {
            fn size(&self) -> u64 {
                (**self).size()
            }

            fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
                (**self).read_exact_at(buf, offset)
            }

            fn read_within(
                &self,
                buf: &mut [u8],
                offset: u64,
                patience: Duration,
            ) -> Result<(), ReadError> {
                (**self).read_within(buf, offset, patience)
            }

            fn read_borrowed<'s>(
                &self,
                scratch: &'s mut Scratch,
                offset: u64,
                len: usize,
            ) -> Result<&'s [u8], ReadError> {
                (**self).read_borrowed(scratch, offset, len)
            }

            fn stream(
                &self,
                range: Range<u64>,
                take: &mut dyn FnMut(&[u8]),
            ) -> Result<(), ReadError> {
                (**self).stream(range, take)
            }

            fn will_need(&self, offset: u64, len: u64) {
                (**self).will_need(offset, len);
            }

            fn will_reach(&self, offset: u64, len: u64) {
                (**self).will_reach(offset, len);
            }

            fn will_stop(&self, offset: u64) {
                (**self).will_stop(offset);
            }

            fn distrust(&self, offset: u64, len: u64) -> bool {
                (**self).distrust(offset, len)
            }

            fn copies(&self) -> u32 {
                (**self).copies()
            }

            fn mend(&self, offset: u64, right: &[u8]) -> io::Result<()> {
                (**self).mend(offset, right)
            }
        }
    )*};
}

forward_read_at!(&S, Arc<S>, Box<S>);
