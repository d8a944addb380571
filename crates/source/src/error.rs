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

/// Why a write or flush was not done, or only in part.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The operating system refused or failed the write.
    #[error("writing {len} bytes at {offset}: {source}")]
    Io {
        /// First byte to be written.
        offset: u64,
        /// Number of bytes to be written.
        len: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The range to be written is not inside the storage.
    #[error("{len} bytes at {offset} are not inside a storage of {size} bytes")]
    PastEnd {
        /// First byte to be written.
        offset: u64,
        /// Number of bytes to be written.
        len: u64,
        /// The storage's size in bytes.
        size: u64,
    },
    /// The operating system failed to make what was written durable. What of it survives a crash
    /// is unknown from then on, also after a later flush that succeeds.
    #[error("flushing: {0}")]
    Flush(#[source] io::Error),
}
