//! Opens the files of a scanned tree.

use std::{fs::File, os::unix::fs::FileExt};

use rustix::fs::OFlags;

use crate::{Entry, EntryId, Error, Identity, InodeKind, SourceTree, cursor::Cursor};

/// Opens files of a tree. It is quick in walk order.
#[derive(Debug)]
pub struct Contents<'t> {
    tree: &'t SourceTree,
    cursor: Cursor,
}

/// The content of a file that is the one that was scanned.
#[derive(Debug)]
pub struct Content<'t> {
    entry: Entry<'t>,
    identity: &'t Identity,
    file: File,
}

impl<'t> Contents<'t> {
    /// For the files of this tree.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if there is no descriptor left.
    pub fn new(tree: &'t SourceTree) -> Result<Self, Error> {
        let cursor = Cursor::new(tree.directory());
        let cursor = cursor.map_err(|error| Error::unreadable(tree.root().path(), error))?;
        Ok(Self { tree, cursor })
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if it cannot be opened, and [`Error::Changed`] if it, or a directory on
    /// the way, is not what was scanned.
    ///
    /// # Panics
    /// If the entry is no regular file.
    pub fn open(&mut self, entry: EntryId) -> Result<Content<'t>, Error> {
        let entry = self.tree.entry(entry);
        let InodeKind::File(data) = &entry.inode().kind else {
            panic!("{entry:?} is no regular file");
        };
        self.cursor.go_to(entry.parent())?;
        let file = self.cursor.open(entry.name(), OFlags::RDONLY);
        let content = Content {
            entry,
            identity: &data.identity,
            file: file.map_err(|error| Error::unreadable(entry.path(), error))?,
        };
        content.check()?;
        Ok(content)
    }
}

impl Content<'_> {
    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if they cannot be read, and [`Error::Changed`] if the file has ended
    /// before.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|error| Error::unreadable(self.entry.path(), error))
    }

    /// Ends reading. What was read counts only if this succeeds.
    ///
    /// # Errors
    /// [`Error::Changed`] if the file is no longer what was scanned.
    pub fn finish(self) -> Result<(), Error> {
        self.check()
    }

    fn check(&self) -> Result<(), Error> {
        let path = || self.entry.path();
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| Error::unreadable(path(), error))?;
        match Identity::of(&metadata) {
            Some(now) if now == *self.identity => Ok(()),
            _ => Err(Error::Changed { path: path() }),
        }
    }
}
