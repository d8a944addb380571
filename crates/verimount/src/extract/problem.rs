use std::{io, path::Path};

use rustix::io::Errno;
use verimount_tree::Error as TreeError;

use super::budget::Exceeded;
use crate::{Error, Location};

/// Why a file was not extracted.
pub(super) enum Problem {
    /// It cannot be read.
    Read(TreeError),
    /// It cannot be written.
    Write(io::Error),
    /// More would be written than this many bytes.
    TooLarge {
        limit: u64,
    },
    Cancelled,
}

impl Problem {
    /// The same as an error about the file at `target`, which is extracted from `image`.
    pub(super) fn at(self, image: &Location, target: &Path) -> Error {
        match self {
            Self::Read(error) => Error::image(target, error),
            Self::Write(error) => Error::io(target, error),
            Self::TooLarge { limit } => Error::TooLarge {
                at: target.into(),
                limit,
            },
            Self::Cancelled => Error::Cancelled { at: image.clone() },
        }
    }
}

impl From<TreeError> for Problem {
    fn from(error: TreeError) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<Errno> for Problem {
    fn from(error: Errno) -> Self {
        Self::Write(error.into())
    }
}

impl From<Exceeded> for Problem {
    fn from(Exceeded { limit }: Exceeded) -> Self {
        Self::TooLarge { limit }
    }
}
