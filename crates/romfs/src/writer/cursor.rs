//! Traverses a tree that others may change concurrently.

use std::{
    fs::{File, Metadata},
    io::{self, ErrorKind},
    path::PathBuf,
};

use rustix::{
    fs::{Mode, OFlags, openat},
    io::Errno,
};

use super::tree::{Data, FileId, Tree};
use crate::Error;

/// Flags of every open. The entry may have become a symbolic link, which must not be followed, or a
/// pipe without a writer, for which the open must not wait.
const FLAGS: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A directory of a tree, held by a descriptor.
///
/// Each entry is opened by its name, relative to this descriptor. So nothing outside the tree is
/// reachable, however others replace its directories, and a name costs the same at any depth. One
/// descriptor is enough for any depth: the cursor goes up by `..`, which must be the same directory
/// as on the way down.
#[derive(Debug)]
pub(super) struct Cursor {
    directory: File,
    /// The number of the directory's item.
    number: usize,
}

/// An entry of a tree, with metadata from its own descriptor.
#[derive(Debug)]
pub(super) struct Found {
    /// Open for listing if it is a directory, else with `O_PATH`.
    pub(super) file: File,
    pub(super) metadata: Metadata,
}

impl Found {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { file, metadata })
    }
}

impl Cursor {
    /// A cursor at the root of a tree.
    pub(super) fn new(root: &File) -> io::Result<Self> {
        Ok(Self {
            directory: root.try_clone()?,
            number: 0,
        })
    }

    /// The number of the directory's item.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The entry with this name in the directory.
    pub(super) fn find(&self, name: &[u8]) -> io::Result<Found> {
        let found = Found::new(self.open(name, OFlags::PATH)?)?;
        if !found.metadata.is_dir() {
            return Ok(found);
        }
        // Opened again for listing, and all metadata is taken from this descriptor: a file system
        // that is mounted on demand is mounted only now.
        Found::new(self.open(name, OFlags::DIRECTORY)?)
    }

    /// Opens the entry with this name in the directory, by default for reading.
    pub(super) fn open(&self, name: &[u8], flags: OFlags) -> io::Result<File> {
        let file = openat(&self.directory, name, FLAGS | flags, Mode::empty())?;
        Ok(file.into())
    }

    /// Enters a directory that was found here.
    pub(super) fn enter(&mut self, directory: File, number: usize) {
        *self = Self { directory, number };
    }

    /// Enters the directory of an item of this directory.
    pub(super) fn descend(&mut self, tree: &Tree, number: usize) -> Result<(), Error> {
        let name = tree.items.get(number).map(|item| &*item.name);
        self.step(tree, name.unwrap_or_default(), number, number)
    }

    /// Goes up to the directory of an item, unless it is this one.
    pub(super) fn ascend(&mut self, tree: &Tree, number: usize) -> Result<(), Error> {
        // Parents have smaller numbers.
        while self.number > number {
            let parent = tree.items.get(self.number).map_or(0, |item| item.parent);
            // If the parent is not the same as before, this directory was moved.
            self.step(tree, b"..", parent, self.number)?;
        }
        Ok(())
    }

    /// Goes to `name`, which must be the directory of item `to`; otherwise the error is that item
    /// `moved` has changed.
    fn step(&mut self, tree: &Tree, name: &[u8], to: usize, moved: usize) -> Result<(), Error> {
        let failed = |error| unreadable(tree.path(moved), error);
        let directory = self.open(name, OFlags::DIRECTORY).map_err(failed)?;
        let id = FileId::of(&directory.metadata().map_err(failed)?);
        match tree.items.get(to).map(|item| &item.data) {
            Some(Data::Directory(scanned)) if *scanned == id => {
                self.enter(directory, to);
                Ok(())
            }
            _ => Err(Error::Changed {
                path: tree.path(moved),
            }),
        }
    }
}

/// The error for an unreadable entry of the tree. An entry that no longer exists has changed.
pub(super) fn unreadable(path: PathBuf, source: io::Error) -> Error {
    let errno = Errno::from_io_error(&source);
    let is_other = matches!(
        errno,
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO)
    );
    match source.kind() {
        ErrorKind::NotFound | ErrorKind::UnexpectedEof => Error::Changed { path },
        _ if is_other => Error::Changed { path },
        _ => Error::Tree { path, source },
    }
}
