use rustix::fs::{Statx, StatxFlags, makedev};

/// What a file of the mirror is known by, for as long as it is remembered. As in FUSE, 1 is the
/// root. A number is never used again for another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The source directory itself.
    pub const ROOT: Self = Self(1);

    /// One of `parts`, such that nodes are spread evenly.
    pub(crate) fn spread(self, parts: usize) -> usize {
        // Multiplied by the golden ratio, any bits of a number make a difference to the highest.
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % parts
    }
}

/// Tells a file of the source from all others, also from a later one that was given its inode
/// number. Hard links share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// When it was made, in nanoseconds since 1970: it does for a generation, and unlike that, it
    /// comes with the attributes. 0 where the file system does not know.
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
