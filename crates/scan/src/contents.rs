//! Opens the files of a scanned tree.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    ops::Range,
    os::unix::fs::FileExt,
};

use rustix::fs::OFlags;
use verimount_source::{ReadAt, Sink};

use crate::{
    BuildError, Entry, EntryId, Error, Identity, InodeId, InodeKind, SourceTree,
    archive::{ArchiveFile, StoredContent},
    cursor::Cursor,
    inode::Place,
    source_tree::Origin,
};

/// Is shown the contents of files while they are read for an image.
pub trait Observer: fmt::Debug + Send + Sync {
    /// These bytes of a file were read, from `offset` on. They come from front to back, but for the turns of several threads, and
    /// without holes.
    fn observe(&self, file: InodeId, offset: u64, bytes: &[u8]);
}

/// Opens files of a tree. It is quick in walk order.
#[derive(Debug)]
pub struct Contents<'t> {
    tree: &'t SourceTree,
    opener: Opener<'t>,
}

/// Where contents are opened.
#[derive(Debug)]
enum Opener<'t> {
    Directory(Cursor),
    Archive(&'t ArchiveFile),
}

/// The content of a file that is the one that was scanned.
#[derive(Debug)]
pub struct Content<'t> {
    entry: Entry<'t>,
    bytes: Bytes<'t>,
}

#[derive(Debug)]
enum Bytes<'t> {
    File { file: File, identity: &'t Identity },
    Archive(StoredContent<'t>),
    Added(&'t [u8]),
}

impl<'t> Contents<'t> {
    /// For the files of this tree.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if there is no descriptor left.
    pub fn new(tree: &'t SourceTree) -> Result<Self, Error> {
        let opener = match &tree.origin {
            Origin::Directory(root) => {
                let cursor = Cursor::new(root);
                let failed = |error| Error::unreadable(tree.root().path(), error);
                Opener::Directory(cursor.map_err(failed)?)
            }
            Origin::Archive(archive) => Opener::Archive(archive),
        };
        Ok(Self { tree, opener })
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if it cannot be opened, and [`Error::Changed`] if it, or a directory on
    /// the way, or the archive is not what was scanned.
    ///
    /// # Panics
    /// If the entry is no regular file.
    pub fn open(&mut self, entry: EntryId) -> Result<Content<'t>, Error> {
        let entry = self.tree.entry(entry);
        let InodeKind::File(data) = &entry.inode().kind else {
            panic!("{entry:?} is no regular file");
        };
        let bytes = match (&mut self.opener, &data.place) {
            (Opener::Directory(cursor), Place::File(identity)) => {
                cursor.go_to(entry.parent())?;
                let file = cursor.open_entry(entry, OFlags::RDONLY);
                let file = file.map_err(|error| Error::unreadable(entry.path(), error))?;
                Bytes::File { file, identity }
            }
            (Opener::Archive(archive), Place::Archive { at, .. }) => {
                Bytes::Archive(archive.content(*at, data))
            }
            (Opener::Directory(_), Place::Added(content)) => Bytes::Added(content),
            _ => unreachable!("all files of a tree are in the same place"),
        };
        let content = Content { entry, bytes };
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
        let read = match &self.bytes {
            Bytes::File { file, .. } => file.read_exact_at(buffer, offset),
            Bytes::Archive(content) => content.read_exact_at(buffer, offset),
            Bytes::Added(bytes) => ReadAt::read_exact_at(*bytes, buffer, offset)
                .map_err(|_| io::ErrorKind::UnexpectedEof.into()),
        };
        read.map_err(|error| Error::unreadable(self.entry.path(), error))?;
        if let Some(observer) = &self.entry.tree().observer {
            observer.observe(self.entry.inode_id(), offset, buffer);
        }
        Ok(())
    }

    /// Adds a range of the bytes to an image.
    ///
    /// # Errors
    /// Those of [`Self::read_exact_at`] and [`Sink::add_with`].
    pub fn copy_to<W: Write>(
        &self,
        sink: &mut Sink<'_, W>,
        range: Range<u64>,
    ) -> Result<(), BuildError> {
        let mut at = range.start;
        sink.add_with(range.end.saturating_sub(at), |room| {
            self.read_exact_at(room, at)?;
            at += room.len() as u64;
            Ok(())
        })
    }

    /// Ends reading. What was read counts only if this succeeds.
    ///
    /// # Errors
    /// [`Error::Changed`] if the file or archive is no longer what was scanned.
    pub fn finish(self) -> Result<(), Error> {
        self.check()
    }

    /// As [`Self::finish`], for what was read so far.
    ///
    /// # Errors
    /// [`Error::Changed`] if the file or archive is no longer what was scanned.
    pub fn check(&self) -> Result<(), Error> {
        let is_same = match &self.bytes {
            Bytes::File { file, identity } => identity.is_of(file),
            Bytes::Archive(content) => content.is_same(),
            Bytes::Added(_) => Ok(true),
        };
        let path = || match &self.bytes {
            Bytes::File { .. } | Bytes::Added(_) => self.entry.path(),
            Bytes::Archive(_) => self.entry.tree().path().to_owned(),
        };
        match is_same {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Changed { path: path() }),
            Err(error) => Err(Error::unreadable(path(), error)),
        }
    }
}
