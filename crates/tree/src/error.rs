use std::error::Error as StdError;

use rustix::io::Errno;
use thiserror::Error;
use verimount_source::ReadError;

/// Why an operation on a tree failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory has no entry of that name, or the tree no such file.
    #[error("there is no such file or directory")]
    NotFound,
    /// It is not a directory.
    #[error("it is not a directory")]
    NotADirectory,
    /// It is a directory.
    #[error("it is a directory")]
    IsADirectory,
    /// It is neither a file nor a directory.
    #[error("it has no content")]
    NoContent,
    /// It is not a symbolic link.
    #[error("it is not a symbolic link")]
    NotASymlink,
    /// Its path leads through too many symbolic links.
    #[error("its path leads through too many symbolic links")]
    TooManyLinks,
    /// It has no extended attribute of that name.
    #[error("it has no such extended attribute")]
    NoAttribute,
    /// The offset is not inside the content.
    #[error("the offset is beyond the end")]
    PastEnd,
    /// The image contradicts its format or itself.
    #[error(transparent)]
    Corrupt(Box<dyn StdError + Send + Sync>),
    /// The image may be valid, but exceeds what is supported.
    #[error(transparent)]
    Unsupported(Box<dyn StdError + Send + Sync>),
    /// The content could not be read, or is not what it should be.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Error {
    /// [`Self::Corrupt`] for this reason.
    pub fn corrupt(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Corrupt(reason.into())
    }

    /// [`Self::Unsupported`] for this reason.
    pub fn unsupported(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unsupported(reason.into())
    }

    /// The failed read behind this error, if that is what it was.
    pub fn read_error(&self) -> Option<&ReadError> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }

    /// The number of the system's error for it, as a mount answers.
    pub fn errno(&self) -> Errno {
        match self {
            Self::NotFound => Errno::NOENT,
            Self::NotADirectory => Errno::NOTDIR,
            Self::IsADirectory => Errno::ISDIR,
            Self::NoContent | Self::NotASymlink => Errno::INVAL,
            Self::TooManyLinks => Errno::LOOP,
            Self::NoAttribute => Errno::NODATA,
            Self::PastEnd => Errno::NXIO,
            // The system's error says most. Without one, it is an ordinary failed read.
            Self::Read(ReadError::Io { source, .. }) => {
                Errno::from_io_error(source).unwrap_or(Errno::IO)
            }
            Self::Corrupt(_) | Self::Unsupported(_) | Self::Read(_) => Errno::IO,
        }
    }

    /// Whether this is a defect of the storage, and not of the request.
    pub fn is_about_content(&self) -> bool {
        matches!(
            self,
            Self::Corrupt(_) | Self::Unsupported(_) | Self::Read(_)
        )
    }
}

/// As a mount answers.
impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        error.errno()
    }
}
