use std::os::fd::AsFd;

use rustix::{
    fs::{StatVfsMountFlags, fstatvfs},
    io::Errno,
};

/// `ST_NOSYMFOLLOW`, which rustix does not have.
const NO_SYMFOLLOW: StatVfsMountFlags = StatVfsMountFlags::from_bits_retain(0x2000);

/// What the mount of the source does not allow, as of the time when the source was opened.
///
/// The kernel refuses these per mount, so the mirror's mount must refuse them itself. The times of
/// access are not among them: the source's own mount decides on them at each read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restrictions {
    /// Changes (`ro`), by the mount or the file system.
    pub read_only: bool,
    /// Running programs (`noexec`).
    pub no_exec: bool,
    /// Following symbolic links (`nosymfollow`).
    pub no_symfollow: bool,
}

impl Restrictions {
    /// Those of the mount that a file is on.
    pub(crate) fn of(file: impl AsFd) -> Result<Self, Errno> {
        let flags = fstatvfs(file)?.f_flag;
        Ok(Self {
            read_only: flags.contains(StatVfsMountFlags::RDONLY),
            no_exec: flags.contains(StatVfsMountFlags::NOEXEC),
            no_symfollow: flags.contains(NO_SYMFOLLOW),
        })
    }
}
