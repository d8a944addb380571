use std::{
    io::{self, Write},
    ops::ControlFlow,
};

use crate::Progress;

/// Bytes per write: enough that the cost of the calls does not matter, few enough to stay in cache.
const BUFFER_LEN: usize = 256 << 10;

/// Writes an image front to back: one buffer that is filled, then written whole.
pub struct Sink<'a, W> {
    out: &'a mut W,
    /// Completes the image's beginning.
    complete: fn(&mut [u8]),
    progress: &'a mut Progress<'a>,
    buffer: Box<[u8]>,
    filled: usize,
    /// Bytes written before the contents of the buffer.
    written: u64,
}

/// Why writing ended early.
#[derive(Debug)]
pub enum SinkError {
    /// The output could not be written.
    Write(io::Error),
    /// Cancelled by the progress callback.
    Cancelled,
}

impl<'a, W: Write> Sink<'a, W> {
    /// How much of an image's beginning can be completed, in bytes.
    pub const BEGINNING: usize = BUFFER_LEN;

    /// An empty image. `complete` is called once with its first [`Self::BEGINNING`] bytes, or all if it is
    /// shorter, before they are written: for a checksum.
    pub fn new(out: &'a mut W, complete: fn(&mut [u8]), progress: &'a mut Progress<'a>) -> Self {
        Self {
            out,
            complete,
            progress,
            buffer: vec![0; BUFFER_LEN].into(),
            filled: 0,
            written: 0,
        }
    }

    /// Adds `len` bytes: `fill` is called with consecutive slices to fill.
    ///
    /// # Errors
    /// What `fill` returns, and [`SinkError`].
    pub fn add_with<E: From<SinkError>>(
        &mut self,
        len: u64,
        mut fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = len;
        while left != 0 {
            if self.filled == self.buffer.len() {
                self.flush()?;
            }
            let room = &mut self.buffer[self.filled..];
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(room.len());
            fill(&mut room[..len])?;
            self.filled += len;
            left -= len as u64;
        }
        Ok(())
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// [`SinkError`] if the output cannot be written, or writing was cancelled.
    pub fn add(&mut self, mut bytes: &[u8]) -> Result<(), SinkError> {
        self.add_with(bytes.len() as u64, |room| {
            let (now, later) = bytes.split_at(room.len());
            room.copy_from_slice(now);
            bytes = later;
            Ok(())
        })
    }

    /// Adds zeros up to an offset of the image, which must not be behind what has been added.
    ///
    /// # Errors
    /// [`SinkError`] if the output cannot be written, or writing was cancelled.
    pub fn pad_to(&mut self, offset: u64) -> Result<(), SinkError> {
        debug_assert!(self.position() <= offset, "{offset} is in what was added");
        self.add_with(offset.saturating_sub(self.position()), |room| {
            room.fill(0);
            Ok(())
        })
    }

    /// How much has been added, in bytes.
    pub fn position(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Writes what has been added since the last flush. Nothing more can be completed of the image's beginning.
    ///
    /// # Errors
    /// [`SinkError`] if the output cannot be written, or writing was cancelled.
    pub fn flush(&mut self) -> Result<(), SinkError> {
        let full = &mut self.buffer[..self.filled];
        if self.written == 0 {
            (self.complete)(full);
        }
        self.out.write_all(full).map_err(SinkError::Write)?;
        let len = self.filled as u64;
        self.written += len;
        self.filled = 0;
        match (self.progress)(len) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(SinkError::Cancelled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_written_front_to_back() {
        let (mut out, mut told) = (Vec::new(), Vec::new());
        let complete: fn(&mut [u8]) = |beginning| {
            assert_eq!(beginning.len(), BUFFER_LEN);
            beginning[0] = 9;
        };
        let mut progress = |bytes| {
            told.push(bytes);
            ControlFlow::Continue(())
        };
        let mut sink = Sink::new(&mut out, complete, &mut progress);
        sink.add(&[1; 3]).unwrap();
        sink.pad_to(5).unwrap();
        let mut next = 0;
        let len = BUFFER_LEN as u64 + 10;
        sink.add_with(len, |room| {
            room.fill_with(|| {
                next += 1;
                next as u8
            });
            Ok::<_, SinkError>(())
        })
        .unwrap();
        assert_eq!(sink.position(), len + 5);
        sink.flush().unwrap();
        assert_eq!(told, [BUFFER_LEN as u64, 15]);
        let counted = (1..=len).map(|number| number as u8);
        let expected: Vec<u8> = [9, 1, 1, 0, 0].into_iter().chain(counted).collect();
        assert!(out == expected);
    }

    #[test]
    fn filling_can_fail_and_writing_be_cancelled() {
        let mut out = Vec::new();
        let mut progress = |_| ControlFlow::Break(());
        let mut sink = Sink::new(&mut out, |_| {}, &mut progress);
        let full = || SinkError::Write(io::ErrorKind::StorageFull.into());
        let result = sink.add_with(5, |_| Err(full()));
        assert!(matches!(result, Err(SinkError::Write(_))), "{result:?}");
        assert_eq!(sink.position(), 0);
        assert!(matches!(sink.flush(), Err(SinkError::Cancelled)));
    }
}
