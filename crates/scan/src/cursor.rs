//! Traverses a tree that others may change concurrently.

use std::{
    fs::{File, Metadata},
    io,
};

use rustix::{
    fs::{Mode, OFlags, openat, readlinkat},
    io::Errno,
};
use verimount_source::FileId;

use crate::{BadLink, Entry, EntryId, Error, InodeKind, SourceTree};

/// Flags of every open, but that only [`Cursor::open_target`] follows. The entry may have become a symbolic link, which must
/// not be followed, or a pipe without a writer, for which the open must not wait.
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
///
/// Only where the options say that symbolic links are followed, what one leads to is opened wherever it is, also outside of the
/// tree. A directory that was reached by a symbolic link has another one above. It is left by going down again from the root.
#[derive(Debug)]
pub(crate) struct Cursor {
    root: File,
    directory: File,
    /// The entry of that directory.
    pub(crate) entry: EntryId,
}

/// An entry of a tree, with metadata from its own descriptor.
#[derive(Debug)]
pub(crate) struct Found {
    /// Open for listing if it is a directory, else with `O_PATH`.
    pub(crate) file: File,
    pub(crate) metadata: Metadata,
    /// The target of the symbolic link that was followed, if one was.
    pub(crate) target: Option<Box<[u8]>>,
}

/// Why a symbolic link was not followed.
#[derive(Debug)]
pub(crate) enum FollowError {
    Link(BadLink),
    Io(io::Error),
}

impl From<io::Error> for FollowError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Self::Link(BadLink::Dangling),
            Some(Errno::LOOP) => Self::Link(BadLink::Circle),
            _ => Self::Io(error),
        }
    }
}

impl Found {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            file,
            metadata,
            target: None,
        })
    }
}

impl Cursor {
    /// A cursor at the root of a tree.
    pub(crate) fn new(root: &File) -> io::Result<Self> {
        Ok(Self {
            root: root.try_clone()?,
            directory: root.try_clone()?,
            entry: EntryId::ROOT,
        })
    }

    /// What has this name in the directory.
    pub(crate) fn find(&self, name: &[u8]) -> io::Result<Found> {
        let found = Found::new(self.open(name, OFlags::PATH)?)?;
        if !found.metadata.is_dir() {
            return Ok(found);
        }
        // Opened again for listing, and all metadata is taken from this descriptor: a file system
        // that is mounted on demand is mounted only now.
        Found::new(self.open(name, OFlags::DIRECTORY)?)
    }

    /// Opens what has this name in the directory, by default for reading.
    pub(crate) fn open(&self, name: &[u8], flags: OFlags) -> io::Result<File> {
        let file = openat(&self.directory, name, FLAGS | flags, Mode::empty())?;
        Ok(file.into())
    }

    /// Opens an entry of the directory: what its symbolic link leads to, if that was followed.
    pub(crate) fn open_entry(&self, entry: Entry<'_>, flags: OFlags) -> io::Result<File> {
        match entry.followed() {
            None => self.open(entry.name(), flags),
            Some(_) => self.open_target(entry.name(), flags),
        }
    }

    /// Opens what a symbolic link leads to.
    fn open_target(&self, name: &[u8], flags: OFlags) -> io::Result<File> {
        let flags = FLAGS.difference(OFlags::NOFOLLOW) | flags;
        Ok(openat(&self.directory, name, flags, Mode::empty())?.into())
    }

    /// What the symbolic link leads to that was found with this name.
    pub(crate) fn follow(&self, link: &Found, name: &[u8]) -> Result<Found, FollowError> {
        let target = readlinkat(&link.file, c"", Vec::new()).map_err(io::Error::from)?;
        let mut found = Found::new(self.open_target(name, OFlags::PATH)?)?;
        if found.metadata.is_dir() {
            found = Found::new(self.open_target(name, OFlags::DIRECTORY)?)?;
        }
        found.target = Some(target.into_bytes().into());
        Ok(found)
    }

    /// Enters a directory that was found here.
    pub(crate) fn enter(&mut self, directory: File, entry: EntryId) {
        self.directory = directory;
        self.entry = entry;
    }

    /// Goes to a directory from wherever the cursor is: up to the nearest directory above both, and
    /// down from there.
    pub(crate) fn go_to(&mut self, target: Entry<'_>) -> Result<(), Error> {
        let tree = target.tree();
        while !tree.entry(self.entry).contains(target.id()) {
            self.ascend(tree)?;
        }
        self.descend_to(target)
    }

    /// Goes down to a directory below.
    fn descend_to(&mut self, target: Entry<'_>) -> Result<(), Error> {
        let mut below = Vec::new();
        let mut above = target;
        while above.id() != self.entry {
            below.push(above);
            above = above.parent();
        }
        while let Some(next) = below.pop() {
            self.step(next.name(), next, next)?;
        }
        Ok(())
    }

    /// Goes up to a directory above, or stays where it is.
    pub(crate) fn ascend_to(&mut self, tree: &SourceTree, above: EntryId) -> Result<(), Error> {
        while self.entry != above {
            self.ascend(tree)?;
        }
        Ok(())
    }

    /// Goes up by one directory.
    fn ascend(&mut self, tree: &SourceTree) -> Result<(), Error> {
        let here = tree.entry(self.entry);
        if here.followed().is_some() {
            let root = self.root.try_clone();
            let root = root.map_err(|error| Error::unreadable(here.path(), error))?;
            self.enter(root, EntryId::ROOT);
            return self.descend_to(here.parent());
        }
        // If the parent is not the same as before, this directory was moved.
        self.step(b"..", here.parent(), here)
    }

    /// Goes to `name`, which must be the directory of entry `to`; otherwise the error is that entry
    /// `moved` has changed.
    fn step(&mut self, name: &[u8], to: Entry<'_>, moved: Entry<'_>) -> Result<(), Error> {
        let failed = |error| Error::unreadable(moved.path(), error);
        let directory = match name {
            b".." => self.open(name, OFlags::DIRECTORY),
            _ => self.open_entry(to, OFlags::DIRECTORY),
        };
        let directory = directory.map_err(failed)?;
        let id = FileId::of(&directory.metadata().map_err(failed)?);
        match &to.inode().kind {
            InodeKind::Directory(scanned) if *scanned == Some(id) => {
                self.enter(directory, to.id());
                Ok(())
            }
            _ => Err(Error::Changed { path: moved.path() }),
        }
    }
}
