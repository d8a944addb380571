use std::{ffi::OsStr, path::Path};

use rustix::io::Errno;
use verimount_names::named;
use verimount_verity::FileDigest;

use crate::Caller;

named! {
    /// How an open may access the file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Access {
        /// Reading only.
        Read = "read",
        /// Writing, or reading and writing; truncating; creating.
        Write = "write",
    }
}

/// The facts that rules test. Some cost I/O, so a rule asks for each fact only when needed, and at
/// most once.
pub trait Facts {
    /// How the open may access the file.
    fn access(&self) -> Access;

    /// The caller that opens it.
    fn caller(&self) -> Caller;

    /// Its path below the source.
    ///
    /// # Errors
    /// As [`crate::Mirror::file_paths`].
    fn path(&self) -> Result<&Path, Errno>;

    /// Its length in bytes; 0 if it is being created.
    ///
    /// # Errors
    /// Any.
    fn size(&self) -> Result<u64, Errno>;

    /// User and group id of its owner; the caller's if it is being created.
    ///
    /// # Errors
    /// Any.
    fn owner(&self) -> Result<(u32, u32), Errno>;

    /// Reads content into `bytes` from `offset` on, and returns the number of bytes: fewer only at
    /// the end of the file.
    ///
    /// # Errors
    /// Any.
    fn content(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno>;

    /// The value of an extended attribute; `None` if the file does not have it.
    ///
    /// # Errors
    /// Any.
    fn xattr(&self, name: &OsStr) -> Result<Option<Vec<u8>>, Errno>;

    /// The fs-verity digest with which the kernel verifies each read of its content; `None` if it
    /// does not.
    ///
    /// # Errors
    /// Any.
    fn verity_digest(&self) -> Result<Option<FileDigest>, Errno>;
}
