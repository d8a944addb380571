#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::as_conversions
)]

use std::io;

use crate::{TreeSink, seal_file::SealFile};

/// How many bytes of a tree are collected before they are written.
const WRITE_SIZE: usize = 1 << 20;

/// Writes a tree's blocks to a file, in few large writes.
pub(crate) struct FileSink<'a, 'f> {
    file: &'a mut SealFile<'f>,
    /// Offset of the tree in the file.
    start: u64,
    /// Offset in the tree of the pending blocks.
    pending_offset: u64,
    pending: Vec<u8>,
}

impl<'a, 'f> FileSink<'a, 'f> {
    /// A sink for a tree that begins at `start` in the file, in bytes.
    pub(crate) fn new(file: &'a mut SealFile<'f>, start: u64) -> Self {
        Self {
            file,
            start,
            pending_offset: 0,
            pending: Vec::new(),
        }
    }

    fn pending_end(&self) -> Option<u64> {
        let len = u64::try_from(self.pending.len()).ok()?;
        self.pending_offset.checked_add(len)
    }

    /// Writes the pending blocks.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let at = self
            .start
            .checked_add(self.pending_offset)
            .ok_or(io::ErrorKind::FileTooLarge)?;
        self.file.write(&self.pending, at)?;
        self.pending.clear();
        Ok(())
    }
}

impl TreeSink for FileSink<'_, '_> {
    fn put(&mut self, offset: u64, block: &[u8]) -> io::Result<()> {
        if self.pending_end() != Some(offset) || self.pending.len() >= WRITE_SIZE {
            self.flush()?;
            self.pending_offset = offset;
        }
        self.pending.extend(block);
        Ok(())
    }
}
