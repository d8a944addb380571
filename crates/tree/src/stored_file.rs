use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::MetadataExt,
};

use rustix::{fs::fgetxattr, io::Errno};

use crate::{Permissions, Timestamp};

/// The permissions that a file keeps in a read-only tree. Set-id bits are dropped: its content need not
/// come from its owner.
const READ_AND_EXECUTE: Permissions = Permissions::new(0o555);

/// The permissions that a file keeps in a read-only tree, without the group's.
const NOT_BY_GROUP: Permissions = Permissions::new(0o505);

/// Owner, permissions and modification time of the file that content is stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredFile {
    pub(crate) permissions: Permissions,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Timestamp,
}

/// For content that is not stored in a file: it belongs to root, and everybody may read it.
impl Default for StoredFile {
    fn default() -> Self {
        Self {
            permissions: Permissions::new(0o444),
            uid: 0,
            gid: 0,
            mtime: Timestamp::EPOCH,
        }
    }
}

impl StoredFile {
    /// The attributes of an open file.
    ///
    /// # Errors
    /// The error of `fstat`.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::new(&file.metadata()?, has_access_list(file)))
    }

    fn new(metadata: &Metadata, has_access_list: bool) -> Self {
        let allowed = if has_access_list {
            // The group's bits are then the mask of the list, which may allow more than the group has.
            NOT_BY_GROUP
        } else {
            READ_AND_EXECUTE
        };
        Self {
            permissions: Permissions::new(metadata.mode()).intersection(allowed),
            uid: metadata.uid(),
            gid: metadata.gid(),
            mtime: Timestamp::from_stat(metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Whether a file has a POSIX access control list, or may have one.
fn has_access_list(file: &File) -> bool {
    let none = fgetxattr(file, "system.posix_acl_access", &mut [0_u8; 0][..]);
    !matches!(none, Err(Errno::NODATA | Errno::OPNOTSUPP))
}
