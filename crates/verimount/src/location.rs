use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_names::printable;
use verimount_source::{FileSource, ReadAt};
use verimount_tree::StoredFile;

use crate::Error;

/// Where content is stored.
///
/// A path converts into it. On display it is shown on one line, with special bytes escaped.
#[derive(Clone)]
#[non_exhaustive]
pub enum Location {
    /// A regular file or block device.
    Path(PathBuf),
    /// A source of one's own.
    Source {
        /// What it is called, in messages and as a mounted file.
        name: OsString,
        /// Where it is read from.
        content: Arc<dyn ReadAt>,
    },
}

impl Location {
    /// A source of one's own. `name` is what it is called, in messages and as a mounted file.
    pub fn source(name: impl Into<OsString>, content: impl ReadAt + 'static) -> Self {
        Self::Source {
            name: name.into(),
            content: Arc::new(content),
        }
    }

    /// The path, if that is what it is.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Source { .. } => None,
        }
    }

    /// The last component of its name.
    pub(crate) fn file_name(&self) -> &OsStr {
        Path::new(self.name())
            .file_name()
            .unwrap_or(OsStr::new("data"))
    }

    /// Where the seal is if it is not with the data: `FILE.verity` beside a file.
    pub(crate) fn sidecar(&self) -> Option<Self> {
        self.path().map(|path| Self::Path(sidecar_path(path)))
    }

    pub(crate) fn exists(&self) -> bool {
        self.path().is_none_or(Path::exists)
    }

    /// Opens it for reading, with the attributes of its file.
    pub(crate) fn open(&self) -> Result<(Arc<dyn ReadAt>, StoredFile), Error> {
        match self {
            Self::Path(path) => {
                let file = open_file(path)?;
                let stored = StoredFile::of(file.file()).map_err(|error| Error::io(self, error))?;
                Ok((Arc::new(file), stored))
            }
            Self::Source { content, .. } => Ok((content.clone(), StoredFile::default())),
        }
    }

    fn name(&self) -> &OsStr {
        match self {
            Self::Path(path) => path.as_os_str(),
            Self::Source { name, .. } => name,
        }
    }
}

/// `FILE.verity`.
pub(crate) fn sidecar_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".verity");
    name.into()
}

/// Opens a regular file or block device for reading.
pub(crate) fn open_file(path: &Path) -> Result<FileSource, Error> {
    FileSource::open(path).map_err(|error| {
        let error = match error.kind() {
            kind @ io::ErrorKind::IsADirectory => io::Error::new(kind, "it is a directory"),
            _ => error,
        };
        Error::io(path, error)
    })
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<&PathBuf> for Location {
    fn from(path: &PathBuf) -> Self {
        Self::Path(path.clone())
    }
}

impl From<&Location> for Location {
    fn from(location: &Location) -> Self {
        location.clone()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        printable(self.name()).fmt(f)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Location").field(&self.name()).finish()
    }
}
