//! Visits all files of a tree, which may be hostile.

use std::{
    collections::{HashSet, VecDeque},
    ffi::OsString,
    mem,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use verimount_names::printable;

use crate::{Attr, Cursor, Error, FileType, NodeId, Tree};

/// The deepest nesting of directories that is walked: half of what fits into a path on Linux, and far
/// more than real trees have.
pub const MAX_DEPTH: usize = 1024;

/// How many entries of a directory are held at a time.
const PART: usize = 256;

/// How many parts of directories may be unreadable: in an image that is made for it, very many can be in one place.
const MAX_FAILURES: usize = 1 << 20;

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
    let mut walker = Walker::new(tree, directory, path)?;
    while let Some((path, attr)) = walker.next(tree)? {
        visit(path, &attr)?;
    }
    Ok(())
}

/// A [`walk`] that goes on when it is asked to.
pub struct Walker {
    walk: Walk<Listing<Attr>>,
    /// The directory that came last, whose entries come next.
    unentered: Option<NodeId>,
}

impl Walker {
    /// A walk over everything below `directory`, which is at `path`.
    ///
    /// # Errors
    /// None of a directory's own; what it cannot read is reported when it comes to that.
    pub fn new(tree: &dyn Tree, directory: NodeId, path: PathBuf) -> Result<Self, Error> {
        let mut walk = Walk::new(tree.usage().max_entries, path);
        walk.enter(directory, Listing::begin(directory))?;
        Ok(Self {
            walk,
            unentered: None,
        })
    }

    /// The next file of the same tree: its path and attributes.
    ///
    /// # Errors
    /// As [`walk`], but none of a visitor.
    pub fn next(&mut self, tree: &dyn Tree) -> Result<Option<(&Path, Attr)>, Error> {
        if let Some(directory) = self.unentered.take() {
            self.walk.enter(directory, Listing::begin(directory))?;
        }
        let list = &mut |directory, from| part(tree, directory, from);
        let next = self.walk.next(|listing| listing.next(list))?;
        Ok(next.map(|attr| {
            self.unentered = attr.is_directory().then_some(attr.node);
            (&*self.walk.path, attr)
        }))
    }
}

/// As [`walk`] over all of a tree that may be damaged, until `visit` breaks. `visit` gets the path and the id of
/// everything that can be found, and the reason where that is not all: any error that [`walk`] would end
/// with.
pub fn walk_readable(
    tree: &dyn Tree,
    mut visit: impl FnMut(Result<(&Path, NodeId), Error>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut walk = Walk::new(tree.usage().max_entries, PathBuf::new());
    let mut entered = walk.enter(NodeId::ROOT, Listing::begin(NodeId::ROOT));
    let mut failures = 0;
    loop {
        if let Err(error) = entered {
            visit(Err(error))?;
        }
        let list = &mut |directory, from| {
            readable_part(tree, directory, from, |error| {
                failures += 1;
                visit(Err(error)).map_break(|()| Ended::ByVisitor)?;
                if failures < MAX_FAILURES {
                    ControlFlow::Continue(())
                } else {
                    let reason =
                        format!("more than {MAX_FAILURES} parts of directories cannot be read");
                    ControlFlow::Break(Ended::Failed(Error::unsupported(reason)))
                }
            })
        };
        let next = walk.next(|listing| listing.next(list));
        let (node, file_type) = match next {
            Ok(Some(found)) => found,
            Ok(None) => return ControlFlow::Continue(()),
            Err(Ended::ByVisitor) => return ControlFlow::Break(()),
            Err(Ended::Failed(error)) => return visit(Err(error)),
        };
        visit(Ok((&walk.path, node)))?;
        entered = match file_type {
            FileType::Directory => walk.enter(node, Listing::begin(node)),
            _ => Ok(()),
        };
    }
}

/// Why a walk ended early.
#[derive(Debug)]
pub enum Ended {
    /// The visitor has broken it.
    ByVisitor,
    /// It cannot go on.
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The state of a walk over directories, each with an `L` that lists its entries one by one.
#[derive(Debug)]
pub struct Walk<L> {
    /// The path of the entry that came last, or of the directory whose entries come next.
    path: PathBuf,
    /// Whether the path is that of an entry, and was not entered.
    is_at_entry: bool,
    /// The directories on this path.
    levels: Vec<L>,
    /// All directories so far: only one path may lead to each.
    entered: HashSet<NodeId>,
    /// How many more entries there can be.
    entries_left: u64,
}

impl<L> Walk<L> {
    /// A walk over what is at `path`, in a tree that has at most so many entries.
    pub fn new(max_entries: u64, path: PathBuf) -> Self {
        Self {
            path,
            is_at_entry: false,
            levels: Vec::new(),
            entered: HashSet::new(),
            entries_left: max_entries,
        }
    }

    /// The path of the entry that came last.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directories that are being listed.
    pub fn levels(&self) -> &[L] {
        &self.levels
    }

    /// Goes on with the entries of the directory that came last.
    ///
    /// # Errors
    /// As [`walk`] for directories that no walk enters.
    pub fn enter(&mut self, directory: NodeId, listing: L) -> Result<(), Error> {
        if !self.entered.insert(directory) {
            let path = printable(&self.path);
            let reason = format!("{path}: the directory is reached by two paths");
            return Err(Error::corrupt(reason));
        }
        if self.levels.len() == MAX_DEPTH {
            let reason = format!("directories nested more than {MAX_DEPTH} deep");
            return Err(Error::unsupported(reason));
        }
        self.is_at_entry = false;
        self.levels.push(listing);
        Ok(())
    }

    /// The next entry: `next` gives that of a directory, with its name.
    ///
    /// # Errors
    /// Those of `next`; [`Error::Corrupt`] if there are too many entries.
    pub fn next<T, E: From<Error>>(
        &mut self,
        mut next: impl FnMut(&mut L) -> Result<Option<(OsString, T)>, E>,
    ) -> Result<Option<T>, E> {
        if mem::take(&mut self.is_at_entry) {
            self.path.pop();
        }
        while let Some(level) = self.levels.last_mut() {
            let Some((name, entry)) = next(level)? else {
                self.levels.pop();
                self.path.pop();
                continue;
            };
            // Directories that share entries would be listed again and again.
            let left = self.entries_left.checked_sub(1);
            let shared = || {
                let path = printable(&self.path);
                Error::corrupt(format!("{path}: directories share their entries"))
            };
            self.entries_left = left.ok_or_else(shared)?;
            self.path.push(name);
            self.is_at_entry = true;
            return Ok(Some(entry));
        }
        Ok(None)
    }
}

/// A directory that is listed part by part, with a `T` of each entry.
struct Listing<T> {
    directory: NodeId,
    /// Entries that come next.
    entries: VecDeque<(OsString, T)>,
    /// Where further entries begin; `None` if there are none.
    rest: Option<Cursor>,
}

/// Entries of a directory, and where further ones may begin.
pub type Part<T> = (VecDeque<(OsString, T)>, Option<Cursor>);

impl<T> Listing<T> {
    fn begin(directory: NodeId) -> Self {
        Self {
            directory,
            entries: VecDeque::new(),
            rest: Some(Cursor::START),
        }
    }

    /// The next entry, from parts that `list` returns.
    fn next<E>(
        &mut self,
        list: &mut impl FnMut(NodeId, Cursor) -> Result<Part<T>, E>,
    ) -> Result<Option<(OsString, T)>, E> {
        while self.entries.is_empty()
            && let Some(from) = self.rest
        {
            (self.entries, self.rest) = list(self.directory, from)?;
        }
        Ok(self.entries.pop_front())
    }
}

/// Some of the entries of a directory with their attributes, from `from` on.
///
/// # Errors
/// Any [`Error`], also if the attributes of an entry cannot be read.
pub fn part(tree: &dyn Tree, directory: NodeId, from: Cursor) -> Result<Part<Attr>, Error> {
    let mut entries = VecDeque::new();
    let mut rest = None;
    let mut unread = None;
    tree.list_with_attrs(directory, from, &mut |entry, next, attr| {
        let Some(attr) = attr else {
            unread = Some(entry.node);
            return ControlFlow::Break(());
        };
        entries.push_back((entry.name.to_owned(), *attr));
        is_full(&entries, next, &mut rest)
    })?;
    match unread {
        // Reading them again gives the reason.
        Some(node) => Err(tree.attr(node).err().unwrap_or(Error::NotFound)),
        None => Ok((entries, rest)),
    }
}

/// Up to [`PART`] readable entries with their types. `lose` gets the reasons why there are not more.
fn readable_part(
    tree: &dyn Tree,
    directory: NodeId,
    from: Cursor,
    mut lose: impl FnMut(Error) -> ControlFlow<Ended>,
) -> Result<Part<(NodeId, FileType)>, Ended> {
    let mut entries = VecDeque::new();
    let mut rest = None;
    let mut ended = None;
    tree.list_readable(directory, from, &mut |found| match found {
        Ok((entry, next)) => {
            entries.push_back((entry.name.to_owned(), (entry.node, entry.file_type)));
            is_full(&entries, next, &mut rest)
        }
        Err(error) => lose(error).map_break(|reason| ended = Some(reason)),
    });
    ended.map_or(Ok((entries, rest)), Err)
}

/// Breaks with [`PART`] entries; `next` is where further ones begin.
fn is_full<T>(entries: &VecDeque<T>, next: Cursor, rest: &mut Option<Cursor>) -> ControlFlow<()> {
    if entries.len() < PART {
        ControlFlow::Continue(())
    } else {
        *rest = Some(next);
        ControlFlow::Break(())
    }
}
