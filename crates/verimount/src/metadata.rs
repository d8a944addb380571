use std::time::{Duration, SystemTime};

use verimount_tree::{Attr, FileType, NodeId, Timestamp};

/// The attributes of a file in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata(Attr);

impl Metadata {
    pub(crate) fn new(attr: Attr) -> Self {
        Self(attr)
    }

    pub(crate) fn node(&self) -> NodeId {
        self.0.node
    }

    /// Its type.
    pub fn file_type(&self) -> FileType {
        self.0.file_type
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.0.file_type == FileType::RegularFile
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.0.is_directory()
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.0.file_type == FileType::Symlink
    }

    /// How many bytes the content has, or the target of a symbolic link.
    #[allow(clippy::len_without_is_empty, reason = "as of std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// Type and permissions, as `st_mode`.
    pub fn mode(&self) -> u32 {
        self.0.mode()
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// How many names it has. An image without owners counts one for each.
    pub fn nlink(&self) -> u32 {
        self.0.nlink
    }

    /// The inode number, which files share only if they are names of the same.
    pub fn ino(&self) -> u64 {
        self.0.ino
    }

    /// The major and minor number of a device node.
    pub fn device(&self) -> (u32, u32) {
        (self.0.rdev.major(), self.0.rdev.minor())
    }

    /// When the content was changed last, as the system has it; the beginning of 1970 if it cannot represent that.
    pub fn modified(&self) -> SystemTime {
        let (seconds, rest) = (self.0.mtime.seconds(), self.0.mtime.nanoseconds());
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let second = if seconds < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(whole)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(whole)
        };
        let exact = second.and_then(|second| second.checked_add(Duration::from_nanos(rest.into())));
        exact.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// When the content was changed last.
    pub fn mtime(&self) -> Timestamp {
        self.0.mtime
    }

    /// When the content was read last.
    pub fn atime(&self) -> Timestamp {
        self.0.atime
    }

    /// When content or attributes were changed last.
    pub fn ctime(&self) -> Timestamp {
        self.0.ctime
    }

    /// The space that the content takes, in units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.0.blocks
    }
}
