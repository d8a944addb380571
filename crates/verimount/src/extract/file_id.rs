use std::{fs::Metadata, io, os::unix::fs::MetadataExt};

/// Identifies a file, as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// The error for a name that no longer is that of the file that was made.
pub(super) fn was_replaced() -> io::Error {
    io::Error::other("somebody else has replaced it meanwhile")
}
