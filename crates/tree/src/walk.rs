//! Visits all files of a tree, which may be hostile.

use std::{
    collections::{HashSet, VecDeque},
    ffi::OsString,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use verimount_names::printable;

use crate::{Attr, Cursor, Error, NodeId, Tree};

/// The deepest nesting of directories that is walked: half of what fits into a path on Linux, and far
/// more than real trees have.
pub const MAX_DEPTH: usize = 1024;

/// How many entries of a directory are held at a time.
const PART: usize = 256;

/// A defect that could make a walk endless.
#[derive(Debug, thiserror::Error)]
enum Endless {
    #[error("{}: the directory is reached by two paths", printable(.0))]
    SharedDirectory(PathBuf),
    #[error("{}: directories share their entries", printable(.0))]
    SharedEntries(PathBuf),
}

/// A directory that is too deep.
#[derive(Debug, thiserror::Error)]
#[error("directories nested more than {MAX_DEPTH} deep")]
struct TooDeep;

/// Calls `visit` with the path and the attributes of everything below `directory`, which is at `path`: a
/// directory before its entries, and these in the order of the tree.
///
/// # Errors
/// What `visit` returns; any [`Error`] of the tree; [`Error::Corrupt`] where two paths lead to one
/// directory, as they do where a directory contains itself, and [`Error::Unsupported`] where
/// directories are nested deeper than [`MAX_DEPTH`].
pub fn walk<E: From<Error>>(
    tree: &dyn Tree,
    directory: NodeId,
    path: PathBuf,
    mut visit: impl FnMut(&Path, &Attr) -> Result<(), E>,
) -> Result<(), E> {
    let mut walk = Walk {
        tree,
        path,
        levels: Vec::new(),
        entered: HashSet::new(),
        entries_left: tree.usage().max_entries,
    };
    walk.enter(directory)?;
    while let Some(level) = walk.levels.last_mut() {
        let Some((name, attr)) = level.entries.pop_front() else {
            walk.list_more()?;
            continue;
        };
        walk.path.push(name);
        visit(&walk.path, &attr)?;
        if attr.is_directory() {
            walk.enter(attr.node)?;
        } else {
            walk.path.pop();
        }
    }
    Ok(())
}

/// The state of a walk.
struct Walk<'t> {
    tree: &'t dyn Tree,
    /// The path of the visited file, or of the directory whose entries come next.
    path: PathBuf,
    /// The directories on this path.
    levels: Vec<Level>,
    /// All directories so far: only one path may lead to each.
    entered: HashSet<NodeId>,
    /// How many more entries there can be.
    entries_left: u64,
}

/// Entries of a directory.
type Part = VecDeque<(OsString, Attr)>;

struct Level {
    directory: NodeId,
    /// Entries that come next.
    entries: Part,
    /// Where further entries begin; `None` if there are none.
    rest: Option<Cursor>,
}

impl Walk<'_> {
    fn enter(&mut self, directory: NodeId) -> Result<(), Error> {
        if !self.entered.insert(directory) {
            return Err(Error::corrupt(Endless::SharedDirectory(self.path.clone())));
        }
        if self.levels.len() == MAX_DEPTH {
            return Err(Error::unsupported(TooDeep));
        }
        self.levels.push(Level {
            directory,
            entries: Part::new(),
            rest: Some(Cursor::START),
        });
        Ok(())
    }

    /// Lists the next part of the last directory, or leaves it if there is no more.
    fn list_more(&mut self) -> Result<(), Error> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        let Some(from) = level.rest else {
            self.levels.pop();
            self.path.pop();
            return Ok(());
        };
        (level.entries, level.rest) = part(self.tree, level.directory, from)?;
        // Directories that share entries would be listed again and again.
        let left = self.entries_left.checked_sub(level.entries.len() as u64);
        let shared = || Error::corrupt(Endless::SharedEntries(self.path.clone()));
        self.entries_left = left.ok_or_else(shared)?;
        Ok(())
    }
}

/// Up to [`PART`] entries, and where further ones may begin.
fn part(tree: &dyn Tree, directory: NodeId, from: Cursor) -> Result<(Part, Option<Cursor>), Error> {
    let mut part = Part::new();
    let mut rest = None;
    let mut unread = None;
    tree.list_with_attrs(directory, from, &mut |entry, next, attr| {
        let Some(attr) = attr else {
            unread = Some(entry.node);
            return ControlFlow::Break(());
        };
        part.push_back((entry.name.to_owned(), *attr));
        match part.len() < PART {
            true => ControlFlow::Continue(()),
            false => {
                rest = Some(next);
                ControlFlow::Break(())
            }
        }
    })?;
    match unread {
        // Reading them again gives the reason.
        Some(node) => Err(tree.attr(node).err().unwrap_or(Error::NotFound)),
        None => Ok((part, rest)),
    }
}
