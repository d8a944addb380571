use std::{num::NonZeroUsize, ops::Deref, sync::Arc};

use verimount_source::{ChunkCache, Fetch, ReadAhead, ReadAt, Unchecked, forward_read_at};

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
        Self(Arc::new(Unchecked(source)))
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

impl Deref for Checked {
    type Target = dyn ReadAt;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

forward_read_at!([] Checked);
