//! The output: one buffer that is filled, then written whole.

use std::{io::Write, ops::ControlFlow};

use verimount_source::Progress;

use crate::{Error, superblock};

/// Bytes per write: enough that the cost of the calls does not matter, few enough to stay in cache.
const BUFFER_LEN: usize = 256 << 10;

/// Writes an image sequentially.
pub(super) struct Sink<'a, W> {
    out: &'a mut W,
    progress: &'a mut Progress<'a>,
    buffer: Box<[u8]>,
    filled: usize,
    /// Bytes written before the contents of the buffer.
    written: u64,
}

impl<'a, W: Write> Sink<'a, W> {
    pub(super) fn new(out: &'a mut W, progress: &'a mut Progress<'a>) -> Self {
        Self {
            out,
            progress,
            buffer: vec![0; BUFFER_LEN].into(),
            filled: 0,
            written: 0,
        }
    }

    /// Adds `len` bytes: `fill` is called with consecutive slices to fill.
    pub(super) fn add_with(
        &mut self,
        len: u64,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut left = len;
        while left != 0 {
            if self.filled == self.buffer.len() {
                self.flush()?;
            }
            let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(room.len());
            let room = room.get_mut(..len).unwrap_or_default();
            fill(room)?;
            self.filled = self.filled.saturating_add(len);
            left = left.saturating_sub(u64::try_from(len).unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Adds bytes.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.add_with(len, |room| {
            let (now, later) = bytes.split_at_checked(room.len()).unwrap_or_default();
            room.copy_from_slice(now);
            bytes = later;
            Ok(())
        })
    }

    /// Adds zeros up to an offset of the image.
    pub(super) fn pad_to(&mut self, offset: u64) -> Result<(), Error> {
        let filled = u64::try_from(self.filled).unwrap_or(u64::MAX);
        let position = self.written.saturating_add(filled);
        self.add_with(offset.saturating_sub(position), |room| {
            room.fill(0);
            Ok(())
        })
    }

    /// Writes the contents of the buffer.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        let full = self.buffer.get_mut(..self.filled).unwrap_or_default();
        if self.written == 0 {
            superblock::set_checksum(full);
        }
        self.out.write_all(full).map_err(Error::Output)?;
        let len = u64::try_from(self.filled).unwrap_or(u64::MAX);
        self.written = self.written.saturating_add(len);
        self.filled = 0;
        match (self.progress)(len) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Cancelled),
        }
    }
}
