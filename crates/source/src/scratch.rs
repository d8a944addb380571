use std::{ops::Range, sync::Arc};

use crate::AlignedBuf;

/// Memory for the bytes that a reader borrows: its own, reused for every read, or shared.
#[derive(Debug, Default)]
pub struct Scratch {
    own: AlignedBuf,
    shared: Option<Arc<AlignedBuf>>,
}

impl Scratch {
    /// The first `len` bytes of the reader's own memory, to be filled.
    pub fn grown(&mut self, len: usize) -> &mut [u8] {
        self.shared = None;
        self.own.grown(len)
    }

    /// Keeps `bytes`, and lends part of them.
    ///
    /// # Panics
    /// If `part` is not inside `bytes`.
    pub fn share(&mut self, bytes: Arc<AlignedBuf>, part: Range<usize>) -> &[u8] {
        &self.shared.insert(bytes).as_slice()[part]
    }
}
