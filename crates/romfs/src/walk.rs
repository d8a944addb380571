//! Walking the tree of an image.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use verimount_source::ReadAt;
use verimount_tree::{Error as TreeError, FileType, Walk};

use crate::{Entries, Error, Limit, Node, NodeId, Romfs};

/// The maximum number of entries in the directories on one path, so that they take at most about
/// 620 MB.
pub(crate) const MAX_HELD_ENTRIES: usize = 4 << 20;

impl<S: ReadAt> Romfs<S> {
    /// Calls `visit` with the path from the root and the node of every entry: a directory before
    /// its entries, and entries in the image's order.
    ///
    /// # Errors
    /// Errors of `visit`; all read errors; those of a [`Walk`]; and [`Error::Unsupported`] if the directories on one path
    /// have too many entries.
    pub fn walk<E: From<Error> + From<TreeError>>(
        &self,
        visit: impl FnMut(&Path, &Node) -> Result<(), E>,
    ) -> Result<(), E> {
        self.walk_listed(|directory| Ok(self.entries(directory)?), visit)
    }

    /// As [`Self::walk`], with the entries that `list` returns for each directory.
    pub(crate) fn walk_listed<E: From<Error> + From<TreeError>>(
        &self,
        mut list: impl FnMut(NodeId) -> Result<Entries, E>,
        mut visit: impl FnMut(&Path, &Node) -> Result<(), E>,
    ) -> Result<(), E> {
        // With the entries of each directory is the position of the next one.
        let mut walk: Walk<(Entries, usize)> = Walk::new(self.max_entries(), PathBuf::new());
        let mut directory = Some(self.root());
        loop {
            if let Some(directory) = directory {
                walk.enter(self.number(directory)?, (list(directory)?, 0))?;
                let held = walk.levels().iter().map(|(entries, _)| entries.len());
                if held.sum::<usize>() > MAX_HELD_ENTRIES {
                    return Err(Error::Unsupported(Limit::HeldEntries).into());
                }
            }
            let next = walk.next(|(entries, next)| {
                let entry = entries.get(*next);
                *next = next.saturating_add(1);
                Ok::<_, TreeError>(
                    entry.map(|entry| (OsStr::from_bytes(entry.name).to_owned(), entry.node)),
                )
            });
            let Some(node) = next? else {
                return Ok(());
            };
            visit(walk.path(), &node)?;
            directory = Some(node.id).filter(|_| node.file_type == FileType::Directory);
        }
    }
}
