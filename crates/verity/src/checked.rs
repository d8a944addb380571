use std::{num::NonZeroUsize, sync::Arc};

use verimount_source::{ChunkCache, Fetch, ReadAhead, ReadAt, ReadError, Scratch, Unchecked};

use crate::VerifiedReader;

/// Bytes that are verified when they are read, or of which somebody has decided that they need not be. Trees of images open on
/// nothing else, so no file is read unverified by mistake.
///
/// It is made of a [`VerifiedReader`], or by [`unverified`](Self::unverified):
///
/// ```
/// # use std::sync::Arc;
/// # use verimount_verity::Checked;
/// let source = Arc::new(vec![0; 10]);
/// let checked = Checked::unverified(source);
/// ```
///
/// Nobody else makes one:
///
/// ```compile_fail
/// # use std::sync::Arc;
/// # use verimount_verity::Checked;
/// let source = Arc::new(vec![0; 10]);
/// let checked = Checked(source);
/// ```
#[derive(Clone)]
pub struct Checked(Arc<dyn ReadAt>);

impl Checked {
    /// What is read as it is stored. This is the only door for it, as the option `--unverified` is for users.
    pub fn unverified(source: Arc<dyn Fetch>) -> Self {
        Self(Arc::new(Unverified(source)))
    }

    /// Announces to the source what sequential readers will reach.
    #[must_use]
    pub fn read_ahead(self) -> Self {
        Self(Arc::new(ReadAhead::new(self.0)))
    }

    /// Adds threads that read, and so verify, ahead of sequential readers of small pieces.
    #[must_use]
    pub fn in_chunks(self, threads: NonZeroUsize) -> Self {
        Self(Arc::new(ChunkCache::new(self.0, threads)))
    }
}

impl From<Arc<VerifiedReader>> for Checked {
    fn from(reader: Arc<VerifiedReader>) -> Self {
        Self(reader)
    }
}

impl ReadAt for Checked {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.0.read_exact_at(buf, offset)
    }

    fn read_borrowed<'s>(
        &self,
        scratch: &'s mut Scratch,
        offset: u64,
        len: usize,
    ) -> Result<&'s [u8], ReadError> {
        self.0.read_borrowed(scratch, offset, len)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.0.will_need(offset, len);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        self.0.will_reach(offset, len);
    }

    fn will_stop(&self, offset: u64) {
        self.0.will_stop(offset);
    }
}

/// What somebody has decided not to verify.
struct Unverified(Arc<dyn Fetch>);

impl Unverified {
    fn bytes(&self) -> Unchecked<'_> {
        Unchecked(&*self.0)
    }
}

impl ReadAt for Unverified {
    fn size(&self) -> u64 {
        self.bytes().size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.bytes().read_exact_at(buf, offset)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.bytes().will_need(offset, len);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        self.bytes().will_reach(offset, len);
    }
}
