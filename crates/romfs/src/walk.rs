//! Visiting everything in an image.

use std::{
    collections::HashSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use verimount_source::ReadAt;

use crate::{
    Entry, Error, Limit, Node, NodeId, NodeKind, Romfs,
    error::Defect,
    geometry::{MIN_HEADER_LEN, to_usize},
};

/// Most directories inside each other that are walked or stored: half of what a path of Linux can
/// name, and far beyond trees in use.
pub const MAX_DEPTH: usize = 1024;

/// Most entries yet to be visited in the directories on one path, so that they take less than some
/// 800 MB.
pub(crate) const MAX_PENDING_ENTRIES: usize = 4 << 20;

impl<S: ReadAt> Romfs<S> {
    /// Calls `visit` with the path, from the root, and the node of every entry below the root: a
    /// directory before its entries, and these in the image's order.
    ///
    /// # Errors
    /// What `visit` returns; all errors of reading; [`Error::Corrupt`] where two paths lead to one
    /// directory, as they do where a directory contains itself, and [`Error::Unsupported`] where
    /// directories are nested deeper than [`MAX_DEPTH`].
    pub fn walk<E: From<Error>>(
        &self,
        visit: impl FnMut(&Path, &Node) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk_listed(|directory| self.entries(directory), visit)
    }

    /// Walks with the entries that `list` gives for each directory.
    pub(crate) fn walk_listed<E: From<Error>>(
        &self,
        mut list: impl FnMut(NodeId) -> Result<Vec<Entry>, Error>,
        mut visit: impl FnMut(&Path, &Node) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut guard = Guard::new(self.size());
        let mut path = PathBuf::new();
        guard.enter(self.root())?;
        let mut levels = vec![guard.admit(list(self.root())?)?.into_iter()];
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.next() else {
                levels.pop();
                path.pop();
                continue;
            };
            path.push(OsStr::from_bytes(&entry.name));
            visit(&path, &entry.node)?;
            if entry.node.kind != NodeKind::Directory {
                path.pop();
                continue;
            }
            guard.enter(entry.node.id)?;
            levels.push(guard.admit(list(entry.node.id)?)?.into_iter());
            let pending = levels.iter().map(ExactSizeIterator::len).sum::<usize>();
            if pending > MAX_PENDING_ENTRIES {
                return Err(Error::Unsupported(Limit::PendingEntries).into());
            }
            if levels.len() > MAX_DEPTH {
                return Err(Error::Unsupported(Limit::Depth).into());
            }
        }
        Ok(())
    }
}

/// Keeps a walk finite and proportional to the image.
struct Guard {
    entered: HashSet<NodeId>,
    /// How many more entries there can be, as each has a header of its own.
    entries_left: usize,
}

impl Guard {
    fn new(image_size: u32) -> Self {
        let headers = image_size / MIN_HEADER_LEN;
        Self {
            entered: HashSet::new(),
            entries_left: to_usize(headers),
        }
    }

    /// Enters a directory, which only one path may lead to.
    fn enter(&mut self, directory: NodeId) -> Result<(), Error> {
        if !self.entered.insert(directory) {
            return Err(Defect::SharedDirectory.at(directory).into());
        }
        Ok(())
    }

    /// Accounts for a directory's entries. Chains that join could be walked without end in sight.
    fn admit(&mut self, entries: Vec<Entry>) -> Result<Vec<Entry>, Error> {
        match self.entries_left.checked_sub(entries.len()) {
            Some(left) => self.entries_left = left,
            None => return Err(Defect::SharedEntries.at(0_u64).into()),
        }
        Ok(entries)
    }
}
