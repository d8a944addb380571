use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use verimount_source::Scratch;
use verimount_tree::{Attr, Cursor, Error as TreeError, FileType, Walker, part};

use crate::{Error, File, Image, Metadata};

/// A file or directory that was found in an image, to use without looking it up again. Symbolic links are not followed.
#[derive(Debug, Clone)]
pub struct DirEntry {
    image: Image,
    path: PathBuf,
    metadata: Metadata,
}

impl DirEntry {
    pub(crate) fn new(image: Image, path: PathBuf, attr: Attr) -> Self {
        let metadata = Metadata::new(attr);
        Self {
            image,
            path,
            metadata,
        }
    }

    /// Its path: that of the directory as it was given, and its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name; that of the root is empty.
    pub fn file_name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Its attributes.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Opens the regular file that it is.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if it is something else; those of reading.
    pub fn open(&self) -> Result<File, Error> {
        let refused = match self.metadata.file_type() {
            FileType::RegularFile => {
                let (node, size) = (self.metadata.node(), self.metadata.len());
                return Ok(File::in_image(self.image.clone(), (node, size), &self.path));
            }
            FileType::Directory => TreeError::IsADirectory,
            _ => TreeError::NoContent,
        };
        Err(self.failed(refused))
    }

    /// The target of the symbolic link that it is.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if it is something else; those of reading.
    pub fn read_link(&self) -> Result<PathBuf, Error> {
        let mut scratch = Scratch::default();
        let tree = self.image.tree();
        let target = tree.readlink(self.metadata.node(), &mut scratch);
        let target = target.map_err(|error| self.failed(error))?;
        Ok(OsStr::from_bytes(target).into())
    }

    /// The names of its extended attributes.
    ///
    /// # Errors
    /// Those of reading.
    pub fn xattr_names(&self) -> Result<Vec<OsString>, Error> {
        let names = self.image.tree().xattr_names(self.metadata.node());
        let names = names.map_err(|error| self.failed(error))?;
        Ok(names.iter().map(OsStr::to_owned).collect())
    }

    /// The value of an extended attribute, if it has that.
    ///
    /// # Errors
    /// Those of reading.
    pub fn xattr(&self, name: impl AsRef<OsStr>) -> Result<Option<Vec<u8>>, Error> {
        match self.image.tree().xattr(self.metadata.node(), name.as_ref()) {
            Ok(value) => Ok(Some(value)),
            Err(TreeError::NoAttribute) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: TreeError) -> Error {
        self.image.failed(&self.path, error)
    }
}

/// The entries of a directory, in the order in which reading the files is cheapest. It ends with the first error.
#[derive(Debug)]
pub struct ReadDir {
    directory: DirEntry,
    entries: VecDeque<(OsString, Attr)>,
    /// Where further entries begin.
    rest: Option<Cursor>,
}

impl ReadDir {
    pub(crate) fn new(directory: DirEntry) -> Result<Self, Error> {
        if directory.metadata.is_dir() {
            Ok(Self {
                directory,
                entries: VecDeque::new(),
                rest: Some(Cursor::START),
            })
        } else {
            Err(directory.failed(TreeError::NotADirectory))
        }
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let DirEntry {
            image,
            path,
            metadata,
        } = &self.directory;
        while self.entries.is_empty() {
            match part(image.tree(), metadata.node(), self.rest.take()?) {
                Ok((entries, rest)) => (self.entries, self.rest) = (entries, rest),
                Err(error) => return Some(Err(self.directory.failed(error))),
            }
        }
        let (name, attr) = self.entries.pop_front()?;
        Some(Ok(DirEntry::new(image.clone(), path.join(name), attr)))
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
    pub(crate) fn new(first: DirEntry) -> Result<Self, Error> {
        let walker = if first.metadata.is_dir() {
            let node = first.metadata.node();
            let walker = Walker::new(first.image.tree(), node, first.path.clone());
            Some(walker.map_err(|error| first.failed(error))?)
        } else {
            None
        };
        Ok(Self {
            image: first.image.clone(),
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
            Ok(Some((path, attr))) => DirEntry::new(self.image.clone(), path.to_owned(), attr),
            Err(error) => return Some(Err(self.image.failed(Path::new(""), error))),
        };
        self.walker = Some(walker);
        Some(Ok(found))
    }
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Walk").field(&self.image).finish()
    }
}
