//! Differences between kinds of file systems, which are identified by their magic numbers
//! (`linux/magic.h`).

use std::os::fd::AsFd;

use rustix::{fs::fstatfs, io::Errno};

const BTRFS: u64 = 0x9123_683e;
const ECRYPTFS: u64 = 0xf15f;
/// ext2, ext3 and ext4.
const EXT: u64 = 0xef53;
const F2FS: u64 = 0xf2f5_2010;
const FUSE: u64 = 0x6573_5546;
const OVERLAYFS: u64 = 0x794c_7630;
const XFS: u64 = 0x5846_5342;

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSystemKind(u64);

impl FileSystemKind {
    /// The kind of the file system that a file is on.
    pub(crate) fn of(file: impl AsFd) -> Result<Self, Errno> {
        Ok(Self(fstatfs(file)?.f_type.cast_unsigned()))
    }

    /// Whether it may be stacked on others. The kernel stacks at most two, and does not report the
    /// depth: a FUSE file system counts if it passes files through.
    pub(crate) fn is_stacked(self) -> bool {
        [ECRYPTFS, FUSE, OVERLAYFS].contains(&self.0)
    }

    /// Whether the first store through a new mapping updates the file's times, and a lease detects
    /// all existing mappings. tmpfs updates no times; overlayfs forgets a mapping when its
    /// descriptor is closed; on others, a server or a process changes files without the kernel.
    pub(crate) fn tells_of_mappings(self) -> bool {
        [BTRFS, EXT, XFS].contains(&self.0)
    }

    /// Whether it may reserve blocks for root, identified by the file system user id.
    pub(crate) fn reserves_blocks(self) -> bool {
        [EXT, F2FS].contains(&self.0)
    }

    /// Whether a process implements it, instead of the kernel.
    pub(crate) fn is_answered_by_a_process(self) -> bool {
        self.0 == FUSE
    }
}
