use std::{fmt, io, path::PathBuf, sync::Arc};

use verimount::{Content, Error};
use verimount_helper::Task;
use verimount_scan::Patterns;
use verimount_serve::{Resident, ResidentMemory, SelectedFiles, VerifiedTree};
use verimount_tree::Tree;

use crate::{
    fault::{ContentFault, Fault},
    processors::auto_threads,
};

/// Files of an image that are kept in memory, whole and verified, as they are opened; the kernel reads and maps them there as
/// it does the files of any other file system.
///
/// Only for root, on Linux 6.9 or later.
#[derive(Clone)]
pub struct ResidentFiles {
    /// All files, or those that match.
    patterns: Option<Patterns>,
    memory: Arc<ResidentMemory>,
    /// Whether they are loaded at once, in the order of the image, as many as there is memory for.
    pub ahead: bool,
}

impl ResidentFiles {
    /// Every regular file, as far as `limit` bytes of memory suffice.
    ///
    /// # Errors
    /// [`PermissionDenied`](verimount::ErrorKind::PermissionDenied) for others than root,
    /// [`InvalidInput`](verimount::ErrorKind::InvalidInput) if the control group of this process has less memory, and those of the
    /// system.
    pub fn all(limit: u64) -> Result<Self, Error> {
        Self::new(None, limit)
    }

    /// The regular files whose path below the image's root matches one of these patterns, as in
    /// [`Exclude`](verimount::options::Exclude).
    ///
    /// # Errors
    /// [`InvalidInput`](verimount::ErrorKind::InvalidInput) for an invalid pattern; those of [`Self::all`].
    pub fn matching<P: AsRef<str>>(
        patterns: impl IntoIterator<Item = P>,
        limit: u64,
    ) -> Result<Self, Error> {
        let patterns = Patterns::new(patterns);
        let patterns = patterns.map_err(|error| Fault::ResidentPattern(error).somewhere())?;
        Self::new(Some(patterns), limit)
    }

    fn new(patterns: Option<Patterns>, limit: u64) -> Result<Self, Error> {
        let memory = ResidentMemory::new(limit);
        let memory = memory.map_err(|error| Fault::ResidentMemory(error).somewhere())?;
        Ok(Self {
            patterns,
            memory: Arc::new(memory),
            ahead: false,
        })
    }

    /// A path by which this process reaches the memory, which a sandbox has to leave it.
    pub(crate) fn path(&self) -> PathBuf {
        self.memory.path()
    }

    /// What the helper of a sandboxed process does with it.
    pub(crate) fn task(&self) -> io::Result<Task> {
        self.memory.task()
    }

    /// The files of `tree`, the tree of `content`.
    pub(crate) fn find(&self, content: &Content, tree: &dyn Tree) -> Result<SelectedFiles, Error> {
        let Some(patterns) = &self.patterns else {
            return Ok(SelectedFiles::all());
        };
        let found = SelectedFiles::find(tree, |path| patterns.matches(path));
        let found = found.map_err(|error| ContentFault::image(content.location(), error))?;
        found.ok_or_else(|| Fault::NothingResident.at(content.location()))
    }

    /// Keeps the selected files of a tree.
    pub(crate) fn keep(&self, tree: &Arc<VerifiedTree>, selected: SelectedFiles) -> Arc<Resident> {
        Resident::new(tree.clone(), self.memory.clone(), selected, auto_threads())
    }
}

impl fmt::Debug for ResidentFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResidentFiles")
            .field("patterns", &self.patterns)
            .field("ahead", &self.ahead)
            .finish_non_exhaustive()
    }
}
