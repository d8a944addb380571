use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;
use verimount_erofs::BuildError as ErofsError;
use verimount_integrity::Error as VolumeError;
use verimount_names::printable;
use verimount_romfs::Error as RomfsError;
use verimount_scan::Error as ScanError;
use verimount_source::ReadError;
use verimount_tree::Error as TreeError;
use verimount_verity::{Error as VerityError, Mismatch};

use crate::{ErrorKind, Location, fault::Fault};

/// Why something failed: what it means for the caller, where it was, and the reason.
///
/// The text has the reason with all its causes, so that [`source`](std::error::Error::source) is always `None`.
///
/// ```
/// use verimount::{ErrorKind, Image, OpenOptions};
///
/// let options = OpenOptions::new().unpinned();
/// let error = Image::open("missing.img", &options).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::NotFound);
/// assert!(error.to_string().starts_with("missing.img: "));
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
/// ```
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
        ErrorKind::of(&self.0.fault)
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
        match self.read_error()? {
            ReadError::Rejected(reason) => reason.downcast_ref(),
            _ => None,
        }
    }

    /// Whether reading failed: bytes do not match, or the storage failed. Other parts may be readable.
    pub fn is_failed_read(&self) -> bool {
        self.read_error().is_some()
    }

    /// Whether it is about a volume, which has an integrity algorithm and perhaps a key in the place of a seal.
    pub fn is_about_volume(&self) -> bool {
        matches!(self.0.fault, Fault::Volume(_))
    }

    /// The number of the system's error that comes closest: that of the system itself, if it refused or failed
    /// something.
    pub fn errno(&self) -> i32 {
        let system = match (&self.0.fault, self.read_error()) {
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

    /// Makes it an error about a file in the image.
    pub(crate) fn inside(mut self, path: &Path) -> Self {
        self.0.inside = Some(path.to_owned());
        self
    }

    pub(crate) fn fault(&self) -> &Fault {
        &self.0.fault
    }

    pub(crate) fn into_fault(self) -> Fault {
        self.0.fault
    }

    /// The failed read behind this error, if there is one.
    fn read_error(&self) -> Option<&ReadError> {
        match &self.0.fault {
            Fault::Read(error)
            | Fault::Seal(VerityError::Source(error))
            | Fault::Image(TreeError::Read(error))
            | Fault::Volume(VolumeError::Source(error)) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn io(at: impl Into<Location>, reason: io::Error) -> Self {
        Fault::Io(reason).at(at)
    }

    pub(crate) fn scan(at: impl Into<Location>, reason: ScanError) -> Self {
        match reason {
            ScanError::Cancelled => Fault::Cancelled.at(at),
            reason => Fault::Scan(reason).somewhere(),
        }
    }

    pub(crate) fn build_romfs(at: impl Into<Location>, reason: RomfsError) -> Self {
        match reason {
            RomfsError::Cancelled => Fault::Cancelled.at(at),
            RomfsError::Scan(reason) => Self::scan(at, reason),
            reason => Fault::BuildRomfs(reason).somewhere(),
        }
    }

    pub(crate) fn build_erofs(at: impl Into<Location>, reason: ErofsError) -> Self {
        match reason {
            ErofsError::Cancelled => Fault::Cancelled.at(at),
            ErofsError::Scan(reason) => Self::scan(at, reason),
            reason => Fault::BuildErofs(reason).somewhere(),
        }
    }

    pub(crate) fn seal(at: impl Into<Location>, reason: VerityError) -> Self {
        match reason {
            VerityError::Cancelled => Fault::Cancelled.at(at),
            reason => Fault::Seal(reason).at(at),
        }
    }

    pub(crate) fn volume(at: impl Into<Location>, reason: VolumeError) -> Self {
        match reason {
            VolumeError::Cancelled => Fault::Cancelled.at(at),
            reason => Fault::Volume(reason).at(at),
        }
    }

    pub(crate) fn read(at: impl Into<Location>, reason: ReadError) -> Self {
        Fault::Read(reason).at(at)
    }

    pub(crate) fn image(at: impl Into<Location>, reason: TreeError) -> Self {
        Fault::Image(reason).at(at)
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

impl std::error::Error for Error {}

/// With [`Error::errno`]'s kind, and the error inside.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = Self::from_raw_os_error(error.errno()).kind();
        Self::new(kind, error)
    }
}
