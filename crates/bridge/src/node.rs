use rustix::fs::{Statx, StatxFlags, makedev};

/// Identifies a remembered file of the mirror. As in FUSE, 1 is the root. Numbers are never reused
/// for another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The source directory itself.
    pub const ROOT: Self = Self(1);

    /// Maps nodes evenly to `0..parts`.
    pub(crate) fn spread(self, parts: usize) -> usize {
        // Multiplied by the golden ratio, all bits of a number affect the highest.
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % parts
    }
}

/// Identifies a file of the source, and distinguishes it from later files with the same inode
/// number. Hard links share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Time of creation in nanoseconds since 1970, 0 if the file system does not store it. It
    /// serves as a generation number, but unlike that, `statx` returns it.
    pub(crate) born: i64,
}

impl From<&Statx> for FileId {
    fn from(found: &Statx) -> Self {
        let born = match found.stx_mask & StatxFlags::BTIME.bits() {
            0 => 0,
            _ => found
                .stx_btime
                .tv_sec
                .wrapping_mul(1_000_000_000)
                .wrapping_add(found.stx_btime.tv_nsec.into()),
        };
        Self {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born,
        }
    }
}
