use std::{fmt, ops::ControlFlow, sync::Arc};

/// How far an operation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done.
    pub step: Step,
    /// How much of it is done: for [`Step::Scan`] and [`Step::Name`] in parts of the tree, for all others in bytes.
    pub done: u64,
    /// How much it is in all; 0 if that is not known.
    pub total: u64,
}

impl Progress {
    /// So much of a step is done.
    pub fn new(step: Step, done: u64, total: u64) -> Self {
        Self { step, done, total }
    }
}

/// A step of an operation, which takes a time in proportion to the size of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Receiving an archive, whose size is not known before its end: `total` grows with `done`.
    Receive,
    /// Reading the names and attributes of a directory tree.
    Scan,
    /// Comparing files that may have the same content.
    Compare,
    /// Writing an image.
    Build,
    /// Writing a Merkle tree.
    Seal,
    /// Computing a digest, or those of the files of a model.
    Hash,
    /// Reading and verifying.
    Verify,
    /// Reading from where bytes are right, and replacing others.
    Repair,
    /// Finding the files of an image that are in bad ranges.
    Name,
    /// Copying files out of an image.
    Extract,
    /// Formatting a volume.
    Format,
    /// Growing a volume.
    Grow,
    /// Recalculating the tags of a volume that a crash left behind.
    Recalculate,
    /// Checking a volume.
    Check,
    /// Sending to a registry.
    Upload,
    /// Fetching from a registry.
    Download,
}

/// The total if it is unknown.
pub const UNKNOWN: u64 = 0;

/// Called from time to time during an operation; returns whether to go on.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Who watches an operation, if anybody does.
///
/// It is called from time to time with how far the operation has come. What it returns says whether to go on; if not, the
/// operation fails with [`Cancelled`](crate::ErrorKind::Cancelled).
#[derive(Clone, Default)]
pub struct Watcher(Option<Arc<dyn Fn(Progress) -> ControlFlow<()> + Send + Sync>>);

impl Watcher {
    /// Somebody who watches it, and says whether to go on.
    pub fn new(watch: impl Fn(Progress) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(watch)))
    }

    /// What an operation calls.
    pub fn watch(&self) -> impl FnMut(Progress) -> ControlFlow<()> + '_ {
        |progress| match &self.0 {
            Some(watch) => watch(progress),
            None => ControlFlow::Continue(()),
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "Watcher",
            None => "nobody",
        })
    }
}

/// Tells `watch` about one step, from what was done since the last call.
pub fn step(watch: &mut Watch<'_>, step: Step, total: u64) -> impl FnMut(u64) -> ControlFlow<()> {
    let mut done: u64 = 0;
    move |bytes| {
        done = done.saturating_add(bytes);
        watch(Progress::new(step, done, total))
    }
}
