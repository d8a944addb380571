use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use verimount_names::printable;
use verimount_source::ReadError;
use verimount_verity::Mismatch;

use crate::{ErrorKind, Location, fault::Fault};

/// Why something failed: what it means for the caller, where it was, and the reason.
///
/// The text stands by itself: it ends with the texts of all causes. [`source`](std::error::Error::source) gives the first of these; the
/// last is what began it, such as an [`io::Error`] or a [`Mismatch`].
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    at: Option<Location>,
    /// Where in the image that is there.
    inside: Option<PathBuf>,
    fault: Fault,
}

impl Error {
    pub(crate) fn new(at: Option<Location>, fault: Fault) -> Self {
        Self(Box::new(Inner {
            at,
            inside: None,
            fault,
        }))
    }

    /// What it means.
    pub fn kind(&self) -> ErrorKind {
        self.0.fault.kind()
    }

    /// Which file or directory it is about, if it is about one.
    pub fn location(&self) -> Option<&Location> {
        self.0.at.as_ref()
    }

    /// The path in the image, if it is about a file in one.
    pub fn path(&self) -> Option<&Path> {
        self.0.inside.as_deref()
    }

    /// The block that does not match, if that is the reason.
    pub fn mismatch(&self) -> Option<&Mismatch> {
        match self.0.fault.failed_read()? {
            ReadError::Rejected(reason) => reason.downcast_ref(),
            _ => None,
        }
    }

    /// Whether reading failed: bytes do not match, or the storage failed. Other parts may be readable.
    pub fn is_failed_read(&self) -> bool {
        self.0.fault.failed_read().is_some()
    }

    /// The number of the system's error that comes closest: that of the system itself, if it refused or failed
    /// something.
    pub fn errno(&self) -> i32 {
        let system = match (&self.0.fault, self.0.fault.failed_read()) {
            (Fault::Io(error), _) => error.raw_os_error(),
            // Of a failed read, it would say that what was opened does not exist.
            (_, Some(ReadError::Io { source, .. })) => source
                .raw_os_error()
                .filter(|errno| *errno != Errno::NOENT.raw_os_error()),
            _ => None,
        };
        let of_kind = || match &self.0.fault {
            Fault::Image(error) if !error.is_about_content() => error.errno(),
            _ => self.kind().errno(),
        };
        system.unwrap_or_else(|| of_kind().raw_os_error())
    }

    /// Makes it an error about a file in the image that it is about.
    #[must_use]
    pub fn inside(mut self, path: &Path) -> Self {
        self.0.inside = Some(path.to_owned());
        self
    }

    pub(crate) fn fault(&self) -> &Fault {
        &self.0.fault
    }

    pub(crate) fn into_fault(self) -> Fault {
        self.0.fault
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.0.at {
            at.fmt(f)?;
        }
        if let Some(path) = &self.0.inside {
            write!(f, ": {}", printable(path))?;
        }
        self.0.fault.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.fault {
            Fault::Other(fault) => fault.source(),
            fault => fault.source(),
        }
    }
}

/// With [`Error::errno`]'s kind, and the error inside.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = Self::from_raw_os_error(error.errno()).kind();
        Self::new(kind, error)
    }
}
