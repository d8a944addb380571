use std::{error::Error, io};

use thiserror::Error;

/// Why a read gave no bytes.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused or failed the read.
    #[error("reading {len} bytes at {offset}: {source}")]
    Io {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        len: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The range asked for is not inside the source.
    #[error("{len} bytes at {offset} are not inside a source of {size} bytes")]
    PastEnd {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        len: usize,
        /// The source's size in bytes.
        size: u64,
    },
    /// The source is shorter than it was when it was opened.
    #[error("{len} bytes at {offset} are gone: the source became shorter after it was opened")]
    Truncated {
        /// First byte asked for.
        offset: u64,
        /// Number of bytes asked for.
        len: usize,
    },
    /// The bytes were read, but a layer that checks them does not vouch for them.
    #[error(transparent)]
    Rejected(Box<dyn Error + Send + Sync>),
}
