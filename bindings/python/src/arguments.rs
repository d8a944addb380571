//! What the Python code says of where content is and which is accepted, as the library takes it.

use std::{
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf, absolute},
    str::FromStr,
    time::Duration,
};

use pyo3::{
    Borrowed, FromPyObject, PyAny, PyErr, PyResult, Python, pyfunction,
    types::{PyAnyMethods, PyString},
};
use verimount::{Cache, CacheError, ImageDevice, Location, OpenOptions, PublicKey, RemoteOptions};

use crate::{
    errors::{exception, invalid, of_system},
    python_source::PythonSource,
};

/// An `Opening` of the Python code: its attributes.
#[derive(FromPyObject)]
pub(crate) struct Opening {
    pub(crate) location: GivenLocation,
    digest: Option<String>,
    key: Option<PathBuf>,
    root_hash: Option<String>,
    unpinned: bool,
    sidecar: Option<GivenLocation>,
    hash_offset: Option<u64>,
    devices: Vec<(GivenLocation, Option<String>)>,
    mirrors: Vec<GivenLocation>,
    cache: Option<PathBuf>,
    timeout: Option<f64>,
    ca: Option<PathBuf>,
    header_file: Option<PathBuf>,
}

/// A text is anything that a location can be, a path object always a path, and everything else a source in Python.
pub(crate) struct GivenLocation {
    pub(crate) location: Location,
    /// Whether Python code reads it.
    pub(crate) is_python: bool,
}

impl FromPyObject<'_, '_> for GivenLocation {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if object.is_instance_of::<PyString>() {
            let text: OsString = object.extract()?;
            let location = Location::try_from(text.as_os_str());
            return Ok(location
                .map_err(|error| exception(py, &error.into()))?
                .into());
        }
        if object.hasattr("__fspath__")? {
            return Ok(Location::from(object.extract::<PathBuf>()?).into());
        }
        let source = PythonSource::new(&object)?;
        Ok(Self {
            location: Location::slow_source(source.name().to_owned(), source),
            is_python: true,
        })
    }
}

impl From<Location> for GivenLocation {
    fn from(location: Location) -> Self {
        Self {
            location,
            is_python: false,
        }
    }
}

impl Opening {
    /// Whether reading it may take long for another reason than its size.
    pub(crate) fn is_slow(&self) -> bool {
        let devices = self.devices.iter().map(|(place, _)| place);
        let others = self.sidecar.iter().chain(&self.mirrors);
        let mut places = devices.chain(others).chain([&self.location]);
        places.any(|place| place.is_python || place.location.is_remote())
    }

    /// The options of the library. Reads files, so that the interpreter's lock must not be held.
    pub(crate) fn options(&self) -> PyResult<OpenOptions> {
        let sidecar = self.sidecar.as_ref();
        let mut options = OpenOptions::new()
            .remote(self.remote()?)
            .cache(self.cache()?)
            // Models are loaded again, and by several processes.
            .page_cache(true)
            .sidecar(sidecar.map(|sidecar| sidecar.location.clone()))
            .hash_offset(self.hash_offset);
        if let Some(digest) = &self.digest {
            options = options.digest(parsed("digest", digest)?);
        }
        if let Some(key) = &self.key {
            options = options.key(read_key(key)?);
        }
        if let Some(root_hash) = &self.root_hash {
            options = options.root_hash(parsed("root_hash", root_hash)?);
        }
        if self.unpinned {
            options = options.unpinned();
        }
        for (place, digest) in &self.devices {
            let digest = digest.as_ref();
            options = options.device(ImageDevice {
                location: place.location.clone(),
                digest: digest.map(|digest| parsed("devices", digest)).transpose()?,
            });
        }
        let mirrors = self.mirrors.iter().map(|mirror| &mirror.location);
        Ok(mirrors.fold(options, OpenOptions::mirror))
    }

    fn cache(&self) -> PyResult<Option<Cache>> {
        let opened = self.cache.as_ref().map(|path| Cache::open(path, None));
        let opened = opened.transpose();
        opened.map_err(|error| match error {
            CacheError::Io { at, source } => unreadable(&at, &source),
            error => invalid_argument("cache", error),
        })
    }

    fn remote(&self) -> PyResult<RemoteOptions> {
        /// Many times the size of a system's list of authorities.
        const MAX_SIZE: u64 = 16 << 20;
        let mut options = RemoteOptions::default();
        if let Some(seconds) = self.timeout {
            options.timeout = Duration::try_from_secs_f64(seconds)
                .map_err(|error| invalid_argument("timeout", error))?;
        }
        if let Some(path) = &self.ca {
            options.authorities = Some(parsed("ca", &read_text(path, MAX_SIZE)?)?);
            options.read_authorities_again(reading(path, MAX_SIZE));
        }
        if let Some(path) = &self.header_file {
            options.headers = parsed("header_file", &read_text(path, MAX_SIZE)?)?;
            options.read_headers_again(reading(path, MAX_SIZE));
        }
        Ok(options)
    }
}

/// Whether a text that is a location is not a path of this machine.
#[pyfunction]
pub(crate) fn is_remote(place: GivenLocation) -> bool {
    place.location.is_remote()
}

/// A public key, given as text or as the path of its file.
fn read_key(key: &Path) -> PyResult<PublicKey> {
    /// Many times the length of a key with its comments.
    const MAX_SIZE: u64 = 64 << 10;
    if let Some(Ok(key)) = key.to_str().map(PublicKey::parse) {
        return Ok(key);
    }
    let text = read_text(key, MAX_SIZE)?;
    PublicKey::parse(&text).map_err(|error| invalid_argument("key", error))
}

/// The text of a file that is not longer than `max_size` bytes.
fn read_text(path: &Path, max_size: u64) -> PyResult<String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(max_size + 1).read_to_string(&mut text));
    match read {
        Ok(len) if len as u64 > max_size => Err(invalid_argument(
            &path.to_string_lossy(),
            format_args!("it has more than {max_size} bytes"),
        )),
        Ok(_) => Ok(text),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// Reads the text of a file whenever that is called.
fn reading(path: &Path, max_size: u64) -> impl Fn() -> io::Result<String> + Send + Sync + use<> {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    move || io::read_to_string(File::open(&path)?.take(max_size))
}

fn unreadable(path: &Path, error: &io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => Python::attach(|py| of_system(py, error, errno, path)),
        // It is no text.
        None => invalid_argument(&path.to_string_lossy(), error),
    }
}

fn parsed<T: FromStr<Err: fmt::Display>>(what: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| invalid_argument(what, error))
}

fn invalid_argument(argument: &str, error: impl fmt::Display) -> PyErr {
    invalid(format_args!("{argument}: {error}"))
}
