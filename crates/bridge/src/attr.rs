use rustix::fs::{FileType, Mode, Statx, StatxAttributes, StatxFlags, StatxTimestamp};

use crate::credentials::Owner;

/// A file's attributes, from `statx`, except those that belong to the mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// The inode number in the source's file system, modified if the file is on another device than
    /// the source directory. Hard links share it.
    pub inode: u64,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// Number of hard links.
    pub links: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The number of a device node; 0:0 for other types.
    pub device: DeviceNumber,
    /// Length in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size of its file system, in bytes.
    pub block_size: u32,
    /// Time of last access.
    pub accessed: Timestamp,
    /// Time of last change of the content.
    pub modified: Timestamp,
    /// Time of last change of content or attributes.
    pub changed: Timestamp,
    /// Time of creation, if the file system stores it.
    pub born: Option<Timestamp>,
    /// Whether it can be changed only by appending (`chattr +a`).
    pub append_only: bool,
}

/// A device's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceNumber {
    /// Its major part.
    pub major: u32,
    /// Its minor part.
    pub minor: u32,
}

/// A time since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds past them.
    pub nanoseconds: u32,
}

impl Attr {
    /// Its type.
    pub fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(crate) fn owner(&self) -> Owner {
        let Self { uid, gid, .. } = *self;
        Owner { uid, gid }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// Whether it is a regular file with a set-user-id or set-group-id bit, which a write may
    /// clear.
    pub fn has_set_id(&self) -> bool {
        let bits = Mode::from_raw_mode(self.mode).intersects(Mode::SUID | Mode::SGID);
        bits && self.file_type() == FileType::RegularFile
    }
}

impl From<&Statx> for Attr {
    fn from(found: &Statx) -> Self {
        let knows_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Self {
            inode: found.stx_ino,
            mode: found.stx_mode.into(),
            links: found.stx_nlink,
            uid: found.stx_uid,
            gid: found.stx_gid,
            device: DeviceNumber {
                major: found.stx_rdev_major,
                minor: found.stx_rdev_minor,
            },
            size: found.stx_size,
            blocks: found.stx_blocks,
            block_size: found.stx_blksize,
            accessed: found.stx_atime.into(),
            modified: found.stx_mtime.into(),
            changed: found.stx_ctime.into(),
            born: knows_birth.then(|| found.stx_btime.into()),
            append_only: found.stx_attributes.contains(StatxAttributes::APPEND),
        }
    }
}

impl From<StatxTimestamp> for Timestamp {
    fn from(time: StatxTimestamp) -> Self {
        Self {
            seconds: time.tv_sec,
            nanoseconds: time.tv_nsec,
        }
    }
}
