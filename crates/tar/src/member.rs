use std::ops::Range;

use verimount_tree::{DeviceNumber, Permissions, Timestamp};

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its path, as it is in the archive: not empty and without NUL.
    pub name: Vec<u8>,
    /// Its type, and what only this type has.
    pub kind: Kind,
    /// What all types have.
    pub attributes: Attributes,
}

/// What members of all types have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Its permissions, with set-id and sticky bits: those of its access control list, if it has one.
    pub permissions: Permissions,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Its extended attributes, by the bytes of their names, which differ.
    pub extended: Vec<Xattr>,
    /// Whether it also has an access control list of NFS (`SCHILY.acl.ace`), which is not read.
    pub has_nfs_list: bool,
}

/// The type of a member, and what only this type has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File(Content),
    /// A further name of what has this name in the archive.
    HardLink(Vec<u8>),
    /// A symbolic link with this target: 1 to 4095 bytes without NUL.
    Symlink(Vec<u8>),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A character device.
    CharDevice(DeviceNumber),
    /// A named pipe.
    Fifo,
}

/// The content of a regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its length in bytes, with holes.
    pub size: u64,
    /// Where its bytes begin in the archive.
    pub at: u64,
    /// The ranges that are in the archive, back to back; in order, not empty and apart from each other. All else are
    /// holes. `None` for a file without holes.
    pub stored: Option<Box<[Range<u64>]>>,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xattr {
    /// Its name with its namespace, of 1 to 255 bytes without NUL.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: Box<[u8]>,
}
