use std::{io, path::PathBuf};

use thiserror::Error;
use verimount_names::printable;

/// Why a cache or an object of it cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The system refused or failed it.
    #[error("{}: {source}", printable(at))]
    Io {
        /// The directory or file.
        at: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not what it should be: a symbolic link, for example.
    #[error("{} is not {expected}", printable(at))]
    WrongType {
        /// The directory or file.
        at: PathBuf,
        /// What it should be.
        expected: &'static str,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to another user", printable(at))]
    Foreign {
        /// The directory or file.
        at: PathBuf,
    },
    /// Others may change what is in it, or read it.
    #[error("{} must have mode {expected:o}, but has {actual:o}", printable(at))]
    Mode {
        /// The directory or file.
        at: PathBuf,
        /// The most that it may have.
        expected: u32,
        /// What it has.
        actual: u32,
    },
}

impl CacheError {
    pub(crate) fn io(at: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        let (at, source) = (at.into(), source.into());
        Self::Io { at, source }
    }
}
