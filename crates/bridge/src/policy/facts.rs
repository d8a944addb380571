use std::{ffi::OsStr, fmt, path::Path};

use rustix::io::Errno;
use serde::Deserialize;
use verimount_verity::FileDigest;

use crate::Caller;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Only reading.
    Read,
    /// Writing, be it that it is also read; truncating; making it.
    Write,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// What rules can go by. Asked for one by one, as some cost I/O; none twice by one rule.
pub trait Facts {
    /// What the file is opened for.
    fn access(&self) -> Access;

    /// Who opens it.
    fn caller(&self) -> Caller;

    /// Its path below the source.
    ///
    /// # Errors
    /// As [`crate::Mirror::path`].
    fn path(&self) -> Result<&Path, Errno>;

    /// Its length in bytes; 0 if it is just being made.
    ///
    /// # Errors
    /// What the system says.
    fn size(&self) -> Result<u64, Errno>;

    /// User and group id of its owner; the caller's if it is just being made.
    ///
    /// # Errors
    /// What the system says.
    fn owner(&self) -> Result<(u32, u32), Errno>;

    /// Fills `bytes` with content from `offset` on, as far as there is any, and says how far.
    ///
    /// # Errors
    /// What the system says.
    fn content(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno>;

    /// The value of an extended attribute; `None` if the file does not have it.
    ///
    /// # Errors
    /// What the system says.
    fn xattr(&self, name: &OsStr) -> Result<Option<Vec<u8>>, Errno>;

    /// The fs-verity digest by which the kernel verifies each read of its content; `None` if it does
    /// not.
    ///
    /// # Errors
    /// What the system says.
    fn verity_digest(&self) -> Result<Option<FileDigest>, Errno>;
}
