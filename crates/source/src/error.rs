use std::{error::Error, io};

use thiserror::Error;

/// Why a read failed.
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
    /// The bytes were read, but did not pass the verification of a layer.
    #[error("{0}")]
    Rejected(#[source] Box<dyn Error + Send + Sync>),
}

impl ReadError {
    /// For what the system says of a read of `len` bytes at `offset`.
    pub fn io(offset: u64, len: usize) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            offset,
            len,
            source,
        }
    }
}

/// Why a write or flush failed. Part of a write may have been done.
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
    /// The operating system failed to make earlier writes durable. Which of them survive a crash is
    /// unknown from then on, even if a later flush succeeds.
    #[error("flushing: {0}")]
    Flush(#[source] io::Error),
}

impl WriteError {
    /// For what the system says of a write of `len` bytes at `offset`.
    pub fn io(offset: u64, len: u64) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            offset,
            len,
            source,
        }
    }
}
