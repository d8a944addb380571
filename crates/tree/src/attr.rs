use bitflags::bitflags;
use rustix::fs::{major, makedev, minor};

use crate::{FileType, NodeId, Timestamp};

/// The attributes of a file, as in `stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// The node id.
    pub node: NodeId,
    /// The inode number that `stat` shows: most often the node id's.
    pub ino: u64,
    /// Its type.
    pub file_type: FileType,
    /// Its permissions, with set-id and sticky bits.
    pub permissions: Permissions,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names.
    pub nlink: u32,
    /// The device of a device node; [`DeviceNumber::NONE`] for all other types.
    pub rdev: DeviceNumber,
    /// Length of the content in bytes; of a symbolic link, of its target.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of content or attributes.
    pub ctime: Timestamp,
}

impl Attr {
    /// Attributes with defaults for the rest: the node id as inode number, owner and group 0, one link, no holes, all times 1970.
    pub const fn new(
        node: NodeId,
        file_type: FileType,
        permissions: Permissions,
        size: u64,
    ) -> Self {
        Self {
            node,
            ino: node.get(),
            file_type,
            permissions,
            uid: 0,
            gid: 0,
            nlink: 1,
            rdev: DeviceNumber::NONE,
            size,
            blocks: size.div_ceil(512),
            atime: Timestamp::EPOCH,
            mtime: Timestamp::EPOCH,
            ctime: Timestamp::EPOCH,
        }
    }

    /// Type and permissions, as in `st_mode`.
    pub const fn mode(&self) -> u32 {
        self.file_type.mode_bits() | self.permissions.bits() as u32
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }
}

bitflags! {
    /// The 12 lower bits of a mode: set-user-id, set-group-id, sticky, and three for each of owner,
    /// group and others.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Permissions: u16 {
        /// All of them.
        const ALL = 0o7777;
    }
}

impl Permissions {
    /// The permissions in a mode, without its type.
    pub const fn new(mode: u32) -> Self {
        Self::from_bits_truncate(mode as u16)
    }
}

/// A device's number as Linux has it, in 32 bits: 12 of major and 20 of minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceNumber(u32);

impl DeviceNumber {
    /// No device.
    pub const NONE: Self = Self(0);

    /// The device with these numbers. As in Linux, only the lower 12 and 20 bits count.
    pub fn new(major: u32, minor: u32) -> Self {
        // All higher bits are in the upper half.
        Self(makedev(major & 0xfff, minor & 0xf_ffff) as u32)
    }

    /// The device with this [encoded](Self::encoded) number.
    pub const fn from_encoded(encoded: u32) -> Self {
        Self(encoded)
    }

    /// Major number.
    pub fn major(self) -> u32 {
        major(self.0.into())
    }

    /// Minor number.
    pub fn minor(self) -> u32 {
        minor(self.0.into())
    }

    /// Both numbers in one, as `mknod` takes it: bits 8 to 19 are the major number, the others the
    /// minor one.
    pub const fn encoded(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_encoded_as_linux_does() {
        for (major, minor, encoded) in [
            (1, 3, 0x103),
            (8, 0x123, 0x0010_0823),
            (0xfff, 0xf_ffff, u32::MAX),
        ] {
            let device = DeviceNumber::new(major, minor);
            assert_eq!(device.encoded(), encoded);
            assert_eq!((device.major(), device.minor()), (major, minor));
        }
        let cut = DeviceNumber::new(0xf001, 0xf00_0002);
        assert_eq!((cut.major(), cut.minor()), (1, 2));
    }

    #[test]
    fn a_mode_is_type_and_permissions() {
        let permissions = Permissions::new(0o104_755);
        assert_eq!(permissions.bits(), 0o4755);
        let attr = Attr::new(NodeId::ROOT, FileType::Directory, permissions, 513);
        assert_eq!((attr.mode(), attr.blocks), (0o044_755, 2));
    }
}
