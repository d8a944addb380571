use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use verimount_source::{ReadAt, ReadError};

/// A source with one corrupted byte, whose position can be changed at any time.
#[derive(Debug)]
pub struct Flipped<S> {
    inner: S,
    position: AtomicU64,
}

impl<S> Flipped<S> {
    /// The position for no corruption.
    pub const NOWHERE: u64 = u64::MAX;

    /// `inner` without corruption.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            position: AtomicU64::new(Self::NOWHERE),
        }
    }

    /// Moves the corruption to the byte at `position`.
    pub fn flip(&self, position: u64) {
        self.position.store(position, Relaxed);
    }
}

impl<S: ReadAt> ReadAt for Flipped<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.inner.read_exact_at(buf, offset)?;
        let position = self.position.load(Relaxed).checked_sub(offset);
        if let Some(byte) = position.and_then(|at| buf.get_mut(usize::try_from(at).ok()?)) {
            *byte ^= 0x10;
        }
        Ok(())
    }
}
