use rustix::fs::{Statx, StatxFlags, makedev};

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
