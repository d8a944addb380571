use std::{error::Error as StdError, io, path::PathBuf};

use thiserror::Error;
use verimount_names::printable;
use verimount_source::SinkError;

use crate::{Entry, Error};

/// Why an image of a tree could not be built.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The tree could not be read, or has changed since it was scanned.
    #[error(transparent)]
    Scan(#[from] Error),
    /// The format cannot represent a part of the tree.
    #[error("{}: {reason}", printable(path))]
    Unstorable {
        /// The path that cannot be stored.
        path: PathBuf,
        /// The reason.
        reason: Box<dyn StdError + Send + Sync>,
    },
    /// The format has no such images, or its compressor failed.
    #[error(transparent)]
    Format(Box<dyn StdError + Send + Sync>),
    /// The image could not be written.
    #[error("writing the image: {0}")]
    Output(#[source] io::Error),
    /// Cancelled by the progress callback.
    #[error("interrupted")]
    Cancelled,
}

impl BuildError {
    /// [`Self::Unstorable`] for this entry.
    pub fn unstorable(entry: Entry<'_>, reason: impl StdError + Send + Sync + 'static) -> Self {
        Self::Unstorable {
            path: entry.path(),
            reason: reason.into(),
        }
    }
}

impl From<SinkError> for BuildError {
    fn from(error: SinkError) -> Self {
        match error {
            SinkError::Write(error) => Self::Output(error),
            SinkError::Cancelled => Self::Cancelled,
        }
    }
}
