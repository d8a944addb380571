use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    fmt, io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use verimount_names::printable;
use verimount_source::{Fetch, FileSource};
use verimount_tree::StoredFile;

use crate::{
    Error,
    far::{Access, FarLocation},
    fault::Fault,
};

/// Where content is stored: a file or block device on this machine, a file on a web server (`https://…`), an image in a
/// registry (`oci://…`), an object in a cloud (`s3://…`, `gs://…`, `az://…`), or a source of one's own.
///
/// A path converts into it, and so does a text, which may be any of these but the last. It only says where: nothing is
/// opened, and connections belong to the options of opening. On display it is shown on one line, with
/// special bytes escaped, and without the query of a URL.
#[derive(Clone)]
pub struct Location(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    Path(PathBuf),
    Far(FarLocation),
    Source {
        name: OsString,
        content: Arc<dyn Fetch>,
        is_slow: bool,
    },
}

impl FarLocation {
    /// Where it is, if it is not on this machine.
    pub fn of(location: &Location) -> Option<&Self> {
        location.far()
    }
}

impl Location {
    /// A source of one's own, such as a [`ReadAt`](verimount_source::ReadAt). `name` is what it is called, in messages and as a mounted file.
    pub fn source(name: impl Into<OsString>, content: impl Fetch + 'static) -> Self {
        Self(Kind::Source {
            name: name.into(),
            content: Arc::new(content),
            is_slow: false,
        })
    }

    /// A source of one's own that takes long to read, such as one on another machine: what is read of it is kept in the
    /// cache, if there is one. `name` is what it is called, in messages and as a mounted file.
    pub fn slow_source(name: impl Into<OsString>, content: impl Fetch + 'static) -> Self {
        Self(Kind::Source {
            name: name.into(),
            content: Arc::new(content),
            is_slow: true,
        })
    }

    /// Whether it names its content by a digest, as `oci://…@sha256:…` does, so that nothing else is accepted.
    pub fn names_content(&self) -> bool {
        self.named_digest().is_some()
    }

    /// The digest that it names its content by.
    pub(crate) fn named_digest(&self) -> Option<String> {
        match &self.0 {
            Kind::Far(far) => far.named_digest(),
            _ => None,
        }
    }

    /// The path, if that is what it is.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Path(path) => Some(path),
            _ => None,
        }
    }

    /// Whether it is not on this machine.
    pub fn is_remote(&self) -> bool {
        matches!(self.0, Kind::Far(_))
    }

    /// Where it is, if it is not on this machine.
    pub(crate) fn far(&self) -> Option<&FarLocation> {
        match &self.0 {
            Kind::Far(far) => Some(far),
            _ => None,
        }
    }

    /// Whether it takes long to read, so that what was read is worth keeping.
    pub(crate) fn is_slow(&self) -> bool {
        match &self.0 {
            Kind::Source { is_slow, .. } => *is_slow,
            _ => self.is_remote(),
        }
    }

    /// The last component of its name.
    pub fn file_name(&self) -> &OsStr {
        let name = match &self.0 {
            Kind::Path(path) => path.as_os_str(),
            Kind::Far(far) => OsStr::new(far.file_name()),
            Kind::Source { name, .. } => name,
        };
        Path::new(name).file_name().unwrap_or(OsStr::new("data"))
    }

    /// Where the seal is if it is not with the data: `FILE.verity` beside a file.
    pub fn sidecar(&self) -> Option<Self> {
        self.with_suffix(SIDECAR_SUFFIX)
    }

    /// The file beside it whose name has this at its end.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Option<Self> {
        match &self.0 {
            Kind::Path(path) => Some(path_with(path, suffix).into()),
            Kind::Far(far) => far.with_suffix(suffix).map(|far| Self(Kind::Far(far))),
            Kind::Source { .. } => None,
        }
    }

    /// This location, also for a process that has gone to another directory.
    pub(crate) fn absolute(self) -> Self {
        match self.0 {
            // Without a current directory, only an absolute path leads anywhere.
            Kind::Path(path) => std::path::absolute(&path).unwrap_or(path).into(),
            other => Self(other),
        }
    }

    /// What `open` opens here, if that exists.
    pub(crate) fn if_existing<T>(
        &self,
        open: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        // A name can be too long for a file system. Only asking tells what is on a server.
        if self.path().is_some_and(|path| !path.exists()) {
            return Ok(None);
        }
        match open() {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if matches!(error.fault(), Fault::Io(error) if error.kind() == io::ErrorKind::NotFound) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens it for reading, with the attributes of its file.
    pub(crate) fn open(&self, access: &Access) -> Result<(Arc<dyn Fetch>, StoredFile), Error> {
        match &self.0 {
            Kind::Path(path) => {
                let file = open_file(path)?;
                let stored = attributes(path, &file)?;
                Ok((Arc::new(file), stored))
            }
            Kind::Far(far) => Ok((far.open(access)?, StoredFile::default())),
            Kind::Source { content, .. } => Ok((content.clone(), StoredFile::default())),
        }
    }
}

/// What the name of a sidecar has at its end.
pub const SIDECAR_SUFFIX: &str = ".verity";

/// What the name of a layer's note has at its end, which containerd writes.
pub(crate) const LAYER_NOTE_SUFFIX: &str = ".dmverity";

/// What a name has at its end of files that may be beside a file and tell how to verify it.
pub const BESIDE: [&str; 2] = [SIDECAR_SUFFIX, LAYER_NOTE_SUFFIX];

/// `FILE.verity`.
pub fn sidecar_path(file: &Path) -> PathBuf {
    path_with(file, SIDECAR_SUFFIX)
}

/// The file beside it whose name has this at its end.
pub fn path_with(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// What the names of content begin with that is not on this machine: of files on web servers, of images in registries, and
/// of objects in clouds.
pub(crate) const SCHEMES: [&str; 6] = ["http://", "https://", "oci://", "s3://", "gs://", "az://"];

/// Whether a text begins with this, which is in lower case, in upper or lower case.
pub(crate) fn begins_with(text: &str, beginning: &str) -> bool {
    let start = text.get(..beginning.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

/// Why a text is not a [`Location`]: it begins like a URL, a name in a registry or of an object, but is none that can be
/// used, or this library was built without the feature for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LocationError(pub(crate) String);

impl TryFrom<&OsStr> for Location {
    type Error = LocationError;

    fn try_from(text: &OsStr) -> Result<Self, LocationError> {
        let is_far = |text: &&str| SCHEMES.iter().any(|scheme| begins_with(text, scheme));
        Ok(Self(match text.to_str().filter(is_far) {
            Some(name) => Kind::Far(FarLocation::parse(name)?),
            None => Kind::Path(text.into()),
        }))
    }
}

impl TryFrom<&str> for Location {
    type Error = LocationError;

    fn try_from(text: &str) -> Result<Self, LocationError> {
        OsStr::new(text).try_into()
    }
}

impl TryFrom<String> for Location {
    type Error = LocationError;

    fn try_from(text: String) -> Result<Self, LocationError> {
        OsStr::new(&text).try_into()
    }
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        text.try_into()
    }
}

impl From<&Path> for Location {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Self(Kind::Path(path))
    }
}

impl From<&PathBuf> for Location {
    fn from(path: &PathBuf) -> Self {
        path.clone().into()
    }
}

impl From<&Location> for Location {
    fn from(location: &Location) -> Self {
        location.clone()
    }
}

impl From<LocationError> for Error {
    fn from(error: LocationError) -> Self {
        Fault::Location(error).somewhere()
    }
}

/// For locations that need no parsing.
impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Opens a regular file or block device for reading.
pub fn open_file(path: &Path) -> Result<FileSource, Error> {
    FileSource::open(path).map_err(|error| {
        let error = match error.kind() {
            kind @ io::ErrorKind::IsADirectory => io::Error::new(kind, "it is a directory"),
            _ => error,
        };
        Fault::io(path, error)
    })
}

/// The attributes of a file that was opened at `path`.
pub(crate) fn attributes(path: &Path, file: &FileSource) -> Result<StoredFile, Error> {
    StoredFile::of(file.file()).map_err(|error| Fault::io(path, error))
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Path(path) => printable(path).fmt(f),
            Kind::Far(far) => far.fmt(f),
            Kind::Source { name, .. } => printable(name).fmt(f),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_not_taken_for_a_url() {
        for path in [
            "./https://host/a",
            "https:",
            "https:/host/a",
            "é",
            "ftp://host/a",
        ] {
            let location: Location = path.parse().unwrap();
            assert_eq!(location.path(), Some(Path::new(path)));
        }
    }
}
