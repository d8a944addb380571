use std::{ops::Range, sync::Arc};

use crate::AlignedBuf;

/// Where a reader keeps the bytes it borrowed: its own memory, used again for every read, or a
/// share of somebody else's.
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

    /// Keeps a share of `bytes`, and lends part of it.
    ///
    /// # Panics
    /// If `bytes` has no such part.
    pub fn share(&mut self, bytes: Arc<AlignedBuf>, part: Range<usize>) -> &[u8] {
        &self.shared.insert(bytes).as_slice()[part]
    }
}
