//! Moving about in a tree that others may change meanwhile.

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

/// The flags of all that is opened: what was a file or directory may have become a symbolic link,
/// which is not followed, or a pipe that nobody writes to, which is not waited for.
const FLAGS: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A directory of a tree, held by a descriptor.
///
/// Everything is opened by its name alone, in the directory that is held. So nothing leads out of
/// the tree, however others exchange its directories, and a name costs the same at any depth. One
/// descriptor is enough for any depth: the way up is `..`, which must be the directory that it was
/// on the way down.
#[derive(Debug)]
pub(super) struct Cursor {
    directory: File,
    /// The number of the directory's item.
    number: usize,
}

/// Something in a tree, with what its own descriptor says of it.
#[derive(Debug)]
pub(super) struct Found {
    /// Open for listing if it is a directory; else a path only.
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
    /// At a tree's root.
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

    /// What has this name in the directory.
    pub(super) fn find(&self, name: &[u8]) -> io::Result<Found> {
        let found = Found::new(self.open(name, OFlags::PATH)?)?;
        if !found.metadata.is_dir() {
            return Ok(found);
        }
        // To be listed it is opened once more, and all that counts is asked of this descriptor:
        // a file system that is mounted on demand is mounted only now.
        Found::new(self.open(name, OFlags::DIRECTORY)?)
    }

    /// Opens what has this name in the directory, for reading if the flags do not say otherwise.
    pub(super) fn open(&self, name: &[u8], flags: OFlags) -> io::Result<File> {
        let file = openat(&self.directory, name, FLAGS | flags, Mode::empty())?;
        Ok(file.into())
    }

    /// Goes down into a directory that was found here.
    pub(super) fn enter(&mut self, directory: File, number: usize) {
        *self = Self { directory, number };
    }

    /// Goes down into the directory of an item of this directory.
    pub(super) fn descend(&mut self, tree: &Tree, number: usize) -> Result<(), Error> {
        let name = tree.items.get(number).map(|item| &*item.name);
        self.step(tree, name.unwrap_or_default(), number, number)
    }

    /// Goes up to the directory of an item above, or stays if it is this one.
    pub(super) fn ascend(&mut self, tree: &Tree, number: usize) -> Result<(), Error> {
        // Numbers get smaller on the way up.
        while self.number > number {
            let parent = tree.items.get(self.number).map_or(0, |item| item.parent);
            // Where it is not what it was, this directory was moved.
            self.step(tree, b"..", parent, self.number)?;
        }
        Ok(())
    }

    /// Goes to what `name` leads to, which must be the directory of item `to`. Else item `moved` is
    /// what has changed.
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

/// Why something of the tree could not be read. What was there and is there no more has changed.
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
