//! Walking the tree of an image.

use std::{
    collections::HashSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use verimount_source::ReadAt;

use crate::{
    Entries, Error, Limit, Node, NodeId, NodeKind, Romfs,
    error::Defect,
    geometry::{MIN_HEADER_LEN, to_usize},
};

/// The maximum nesting depth of directories: as deep as trees of any format are walked.
pub const MAX_DEPTH: usize = verimount_tree::MAX_DEPTH;

/// The maximum number of entries in the directories on one path, so that they take at most about
/// 620 MB.
pub(crate) const MAX_HELD_ENTRIES: usize = 4 << 20;

impl<S: ReadAt> Romfs<S> {
    /// Calls `visit` with the path from the root and the node of every entry: a directory before
    /// its entries, and entries in the image's order.
    ///
    /// # Errors
    /// Errors of `visit`; all read errors; [`Error::Corrupt`] if two paths lead to the same
    /// directory, as when a directory contains itself; and [`Error::Unsupported`] if directories
    /// are nested deeper than [`MAX_DEPTH`].
    pub fn walk<E: From<Error>>(
        &self,
        visit: impl FnMut(&Path, &Node) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk_below(self.root(), PathBuf::new(), visit)
    }

    /// Walks the tree below `directory`, whose path from the root is `path`.
    ///
    /// # Errors
    /// As [`Self::walk`].
    pub fn walk_below<E: From<Error>>(
        &self,
        directory: NodeId,
        path: PathBuf,
        visit: impl FnMut(&Path, &Node) -> Result<(), E>,
    ) -> Result<(), E> {
        let list = |directory| Ok(self.entries(directory)?);
        self.walk_listed((directory, path), list, visit)
    }

    /// Walks the tree below `start`, with the entries that `list` returns for each directory.
    pub(crate) fn walk_listed<E: From<Error>>(
        &self,
        (start, mut path): (NodeId, PathBuf),
        mut list: impl FnMut(NodeId) -> Result<Entries, E>,
        mut visit: impl FnMut(&Path, &Node) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut guard = Guard::new(self.size());
        guard.enter(start)?;
        let mut levels = vec![Level::new(guard.admit(list(start)?)?)];
        while let Some(level) = levels.last_mut() {
            let Some((name, node)) = level.next() else {
                levels.pop();
                path.pop();
                continue;
            };
            path.push(name);
            visit(&path, &node)?;
            if node.kind != NodeKind::Directory {
                path.pop();
                continue;
            }
            guard.enter(node.id)?;
            levels.push(Level::new(guard.admit(list(node.id)?)?));
            let held = levels.iter().map(|level| level.entries.len());
            if held.sum::<usize>() > MAX_HELD_ENTRIES {
                return Err(Error::Unsupported(Limit::HeldEntries).into());
            }
            if levels.len() > MAX_DEPTH {
                return Err(Error::Unsupported(Limit::Depth).into());
            }
        }
        Ok(())
    }
}

/// A directory on the path to the current position of a walk.
struct Level {
    entries: Entries,
    /// The position of the next entry.
    next: usize,
}

impl Level {
    fn new(entries: Entries) -> Self {
        Self { entries, next: 0 }
    }

    fn next(&mut self) -> Option<(&OsStr, Node)> {
        let entry = self.entries.get(self.next)?;
        self.next = self.next.saturating_add(1);
        Some((OsStr::from_bytes(entry.name), entry.node))
    }
}

/// Bounds a walk by the size of the image.
struct Guard {
    entered: HashSet<NodeId>,
    /// How many more entries there can be, as each has its own header.
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

    /// Enters a directory. Only one path may lead to it.
    fn enter(&mut self, directory: NodeId) -> Result<(), Error> {
        if !self.entered.insert(directory) {
            return Err(Defect::SharedDirectory.at(directory).into());
        }
        Ok(())
    }

    /// Counts a directory's entries. Walking chains that share headers could otherwise take
    /// excessive time.
    fn admit(&mut self, entries: Entries) -> Result<Entries, Error> {
        match self.entries_left.checked_sub(entries.len()) {
            Some(left) => self.entries_left = left,
            None => return Err(Defect::SharedEntries.at(0_u64).into()),
        }
        Ok(entries)
    }
}
