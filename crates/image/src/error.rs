use thiserror::Error;
use verimount_source::ReadError;

/// Why an operation on a directory tree failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory has no entry of that name, or there is no such inode.
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
    /// The image is broken or could not be read.
    #[error(transparent)]
    Image(#[from] verimount_romfs::Error),
    /// The content could not be read, or is not what it should be.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Error {
    /// The failed read behind this error, if that is what it was.
    pub fn read_error(&self) -> Option<&ReadError> {
        match self {
            Self::Read(error) | Self::Image(verimount_romfs::Error::Source(error)) => Some(error),
            _ => None,
        }
    }

    /// Whether this says something of the image, not of what was asked for.
    pub fn is_about_content(&self) -> bool {
        matches!(self, Self::Image(_) | Self::Read(_))
    }
}
