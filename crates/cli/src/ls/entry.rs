use std::{ffi::OsString, path::Path, path::PathBuf};

use verimount::{DirEntry, Error, FileType, Metadata};

/// All that an image tells of a file.
pub(super) struct Entry<'a> {
    pub(super) path: &'a Path,
    pub(super) metadata: &'a Metadata,
    /// The target of a symbolic link.
    pub(super) target: Option<PathBuf>,
    pub(super) xattrs: Vec<OsString>,
}

impl<'a> Entry<'a> {
    pub(super) fn read(entry: &'a DirEntry) -> Result<Self, Error> {
        let metadata = entry.metadata();
        Ok(Self {
            path: entry.path(),
            metadata,
            target: if metadata.is_symlink() {
                Some(entry.read_link()?)
            } else {
                None
            },
            xattrs: entry.xattr_names()?,
        })
    }

    /// Whether it is a device.
    pub(super) fn is_device(&self) -> bool {
        let file_type = self.metadata.file_type();
        matches!(file_type, FileType::BlockDevice | FileType::CharDevice)
    }

    /// Its permissions, with set-id and sticky bits.
    pub(super) fn permissions(&self) -> u32 {
        self.metadata.mode() & 0o7777
    }
}
