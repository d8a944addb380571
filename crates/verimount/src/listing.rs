use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
};

use verimount_tree::{Attr, Cursor, NodeId, Walker, part};

use crate::{Error, Image, Metadata};

/// A file or directory that was found in a directory of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    path: PathBuf,
    metadata: Metadata,
}

impl DirEntry {
    pub(crate) fn new(path: PathBuf, attr: Attr) -> Self {
        let metadata = Metadata::new(attr);
        Self { path, metadata }
    }

    /// Its path: that of the directory as it was given, and its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name; that of the root is empty.
    pub fn file_name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Its attributes. A symbolic link is not followed.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// The entries of a directory, in the order in which reading the files is cheapest. It ends with the first error.
pub struct ReadDir {
    image: Image,
    directory: NodeId,
    path: PathBuf,
    entries: VecDeque<(OsString, Attr)>,
    /// Where further entries begin.
    rest: Option<Cursor>,
}

impl ReadDir {
    pub(crate) fn new(image: Image, directory: NodeId, path: PathBuf) -> Self {
        Self {
            image,
            directory,
            path,
            entries: VecDeque::new(),
            rest: Some(Cursor::START),
        }
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.entries.is_empty() {
            match part(self.image.tree(), self.directory, self.rest.take()?) {
                Ok((entries, rest)) => (self.entries, self.rest) = (entries, rest),
                Err(error) => return Some(Err(self.image.failed(&self.path, error))),
            }
        }
        let (name, attr) = self.entries.pop_front()?;
        Some(Ok(DirEntry::new(self.path.join(name), attr)))
    }
}

/// Everything below a directory, and the directory itself. It ends with the first error.
pub struct Walk {
    image: Image,
    /// What comes first.
    first: Option<DirEntry>,
    walker: Option<Walker>,
}

impl Walk {
    pub(crate) fn new(image: Image, first: DirEntry) -> Result<Self, Error> {
        let walker = match first.metadata.is_dir() {
            true => {
                let node = first.metadata.node();
                let walker = Walker::new(image.tree(), node, first.path.clone());
                Some(walker.map_err(|error| image.failed(&first.path, error))?)
            }
            false => None,
        };
        Ok(Self {
            image,
            first: Some(first),
            walker,
        })
    }
}

impl Iterator for Walk {
    type Item = Result<DirEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        let mut walker = self.walker.take()?;
        let found = match walker.next(self.image.tree()) {
            Ok(None) => return None,
            Ok(Some((path, attr))) => DirEntry::new(path.to_owned(), attr),
            Err(error) => return Some(Err(self.image.failed(Path::new(""), error))),
        };
        self.walker = Some(walker);
        Some(Ok(found))
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadDir").field(&self.path).finish()
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Walk").field(&self.image).finish()
    }
}
