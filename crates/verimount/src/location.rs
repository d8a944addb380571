use std::{
    ffi::{OsStr, OsString},
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_names::printable;
use verimount_source::{FileSource, ReadAt};
use verimount_tree::StoredFile;

#[cfg(feature = "remote")]
use crate::registry::RegistryImage;
use crate::{Access, Error};
#[cfg(feature = "clouds")]
use verimount_remote::cloud::ObjectName;
#[cfg(feature = "remote")]
use verimount_remote::{RemoteUrl, registry::Reference};

/// Where content is stored.
///
/// A path converts into it. On display it is shown on one line, with special bytes escaped.
#[derive(Clone)]
#[non_exhaustive]
pub enum Location {
    /// A regular file or block device.
    Path(PathBuf),
    /// A file on a web server.
    #[cfg(feature = "remote")]
    Url(RemoteUrl),
    /// Content in a registry.
    #[cfg(feature = "remote")]
    Registry(RegistryImage),
    /// An object in a cloud.
    #[cfg(feature = "clouds")]
    Object(ObjectName),
    /// A source of one's own.
    Source {
        /// What it is called, in messages and as a mounted file.
        name: OsString,
        /// Where it is read from.
        content: Arc<dyn ReadAt>,
        /// Whether reading it takes long.
        is_slow: bool,
    },
}

impl Location {
    /// A source of one's own. `name` is what it is called, in messages and as a mounted file.
    pub fn source(name: impl Into<OsString>, content: impl ReadAt + 'static) -> Self {
        Self::Source {
            name: name.into(),
            content: Arc::new(content),
            is_slow: false,
        }
    }

    /// The same for a source that takes long to read, such as one on another machine: what is read of it is kept in the
    /// cache, if there is one.
    pub fn slow_source(name: impl Into<OsString>, content: impl ReadAt + 'static) -> Self {
        Self::Source {
            name: name.into(),
            content: Arc::new(content),
            is_slow: true,
        }
    }

    /// What an argument of a command means: a URL if it begins with `http://` or `https://`, an image in a
    /// registry if it begins with `oci://`, an object in a cloud if it begins with `s3://`, `gs://` or `az://`,
    /// else a path.
    ///
    /// # Errors
    /// [`LocationError`] if it begins like a URL but cannot be used.
    pub fn of_argument(argument: &OsStr) -> Result<Self, LocationError> {
        let begins_with = |text: &str, schemes: &[&str]| {
            schemes.iter().any(|scheme| {
                let start = text.get(..scheme.len());
                start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            })
        };
        match argument.to_str() {
            Some(url) if begins_with(url, &["http://", "https://", "oci://"]) => Self::of_url(url),
            Some(name) if begins_with(name, &["s3://", "gs://", "az://"]) => Self::of_object(name),
            _ => Ok(Self::Path(argument.into())),
        }
    }

    #[cfg(feature = "clouds")]
    fn of_object(name: &str) -> Result<Self, LocationError> {
        let name: ObjectName = name.parse()?;
        Ok(Self::Object(name))
    }

    #[cfg(not(feature = "clouds"))]
    fn of_object(_: &str) -> Result<Self, LocationError> {
        Err(LocationError::NoClouds)
    }

    #[cfg(feature = "remote")]
    fn of_url(url: &str) -> Result<Self, LocationError> {
        if Reference::is_meant(url) {
            let image = RegistryImage::new(url.parse()?);
            return Ok(Self::Registry(image));
        }
        let url: RemoteUrl = url.parse()?;
        Ok(Self::Url(url))
    }

    #[cfg(not(feature = "remote"))]
    fn of_url(_: &str) -> Result<Self, LocationError> {
        Err(LocationError::NoRemote)
    }

    /// The same; if it is in a registry, that is spoken to without encryption if `plain_http` says so.
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn with_plain_http(self, plain_http: bool) -> Self {
        match self {
            Self::Registry(image) => Self::Registry(image.with_plain_http(plain_http)),
            other => other,
        }
    }

    /// Whether it names its content by a digest, so that nothing else is accepted.
    pub fn names_content(&self) -> bool {
        match self {
            #[cfg(feature = "remote")]
            Self::Registry(image) => image.reference().digest().is_some(),
            _ => false,
        }
    }

    /// The path, if that is what it is.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            _ => None,
        }
    }

    /// Whether it is not on this machine.
    pub fn is_remote(&self) -> bool {
        !matches!(self, Self::Path(_) | Self::Source { .. })
    }

    /// Whether it takes long to read, so that what was read is worth keeping.
    #[cfg(feature = "remote")]
    pub(crate) fn is_slow(&self) -> bool {
        match self {
            Self::Source { is_slow, .. } => *is_slow,
            other => other.is_remote(),
        }
    }

    /// The last component of its name.
    pub(crate) fn file_name(&self) -> &OsStr {
        let name = match self {
            #[cfg(feature = "remote")]
            Self::Url(url) => OsStr::new(url.file_name()),
            #[cfg(feature = "remote")]
            Self::Registry(image) => OsStr::new(image.reference().image_name()),
            #[cfg(feature = "clouds")]
            Self::Object(name) => OsStr::new(name.file_name()),
            Self::Path(path) => path.as_os_str(),
            Self::Source { name, .. } => name,
        };
        Path::new(name).file_name().unwrap_or(OsStr::new("data"))
    }

    /// Where the seal is if it is not with the data: `FILE.verity` beside a file.
    pub(crate) fn sidecar(&self) -> Option<Self> {
        self.with_suffix(SIDECAR_SUFFIX)
    }

    /// The file beside it whose name has this at its end.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Option<Self> {
        match self {
            Self::Path(path) => Some(Self::Path(path_with(path, suffix))),
            #[cfg(feature = "remote")]
            Self::Url(url) => url.with_suffix(suffix).ok().map(Self::Url),
            #[cfg(feature = "remote")]
            Self::Registry(_) => None,
            #[cfg(feature = "clouds")]
            Self::Object(name) => name.with_suffix(suffix).ok().map(Self::Object),
            Self::Source { .. } => None,
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
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens it for reading, with the attributes of its file.
    #[cfg_attr(
        not(feature = "remote"),
        allow(unused_variables, reason = "all is here")
    )]
    pub(crate) fn open(&self, access: &Access) -> Result<(Arc<dyn ReadAt>, StoredFile), Error> {
        match self {
            Self::Path(path) => {
                let file = open_file(path)?;
                let stored = StoredFile::of(file.file()).map_err(|error| Error::io(self, error))?;
                Ok((Arc::new(file), stored))
            }
            #[cfg(feature = "remote")]
            Self::Url(url) => {
                let file = access.session.open(url);
                let file = file.map_err(|error| Error::io(self, error.into()))?;
                Ok((Arc::new(file), StoredFile::default()))
            }
            #[cfg(feature = "remote")]
            Self::Registry(image) => {
                let file = image.open(&image.find(access)?)?;
                Ok((Arc::new(file), StoredFile::default()))
            }
            #[cfg(feature = "clouds")]
            Self::Object(name) => {
                let file = access.session.open_object(name);
                let file = file.map_err(|error| Error::io(self, error.into()))?;
                Ok((Arc::new(file), StoredFile::default()))
            }
            Self::Source { content, .. } => Ok((content.clone(), StoredFile::default())),
        }
    }
}

/// What the name of a sidecar has at its end.
pub(crate) const SIDECAR_SUFFIX: &str = ".verity";

/// `FILE.verity`.
pub(crate) fn sidecar_path(file: &Path) -> PathBuf {
    path_with(file, SIDECAR_SUFFIX)
}

fn path_with(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Why an argument is not a [`Location`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// It begins like a URL, but is none that can be used.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Url(#[from] verimount_remote::ParseUrlError),
    /// It begins like the name of an image in a registry, but is none.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Reference(#[from] verimount_remote::registry::ParseReferenceError),
    /// It begins like the name of an object in a cloud, but is none.
    #[cfg(feature = "clouds")]
    #[error(transparent)]
    Object(#[from] verimount_remote::cloud::ParseObjectNameError),
    /// It names an object in a cloud, and this program was built without the feature `clouds`.
    #[cfg(not(feature = "clouds"))]
    #[error("this program was built without support for object stores")]
    NoClouds,
    /// It is a URL, and this program was built without the feature `remote`.
    #[cfg(not(feature = "remote"))]
    #[error("this program was built without support for URLs")]
    NoRemote,
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
        match self {
            Self::Path(path) => printable(path).fmt(f),
            #[cfg(feature = "remote")]
            Self::Url(url) => url.fmt(f),
            #[cfg(feature = "remote")]
            Self::Registry(image) => image.fmt(f),
            #[cfg(feature = "clouds")]
            Self::Object(name) => name.fmt(f),
            Self::Source { name, .. } => printable(name).fmt(f),
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
            let location = Location::of_argument(path.as_ref()).unwrap();
            assert_eq!(location.path(), Some(Path::new(path)));
        }
    }

    #[cfg(feature = "remote")]
    #[test]
    fn a_url_has_a_name_and_a_sidecar() {
        let url = Location::of_argument("HTTPS://host/a/app.img?token=secret".as_ref()).unwrap();
        assert_eq!(url.path(), None);
        assert_eq!(url.file_name(), "app.img");
        assert_eq!(url.to_string(), "https://host/a/app.img");
        let sidecar = url.sidecar().unwrap();
        assert_eq!(
            format!("{sidecar:?}"),
            "Location(https://host/a/app.img.verity)"
        );
        let refused = Location::of_argument("http://me:secret@host/a".as_ref());
        assert!(!refused.unwrap_err().to_string().contains("secret"));
    }

    #[cfg(feature = "clouds")]
    #[test]
    fn an_object_has_a_name_and_a_sidecar() {
        let object = Location::of_argument("S3://bucket/a/app.img".as_ref()).unwrap();
        assert!(object.is_remote());
        assert_eq!(object.file_name(), "app.img");
        let sidecar = object.sidecar().unwrap();
        assert_eq!(sidecar.to_string(), "s3://bucket/a/app.img.verity");
        let refused = Location::of_argument("s3://me:secret@bucket/a".as_ref());
        assert!(!refused.unwrap_err().to_string().contains("secret"));
    }

    #[cfg(not(feature = "clouds"))]
    #[test]
    fn an_object_is_refused() {
        let refused = Location::of_argument("s3://bucket/a".as_ref());
        assert_eq!(refused.err(), Some(LocationError::NoClouds));
    }

    #[cfg(not(feature = "remote"))]
    #[test]
    fn a_url_is_refused() {
        let refused = Location::of_argument("https://host/a".as_ref());
        assert_eq!(refused.err(), Some(LocationError::NoRemote));
    }
}
