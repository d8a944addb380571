//! The ways in which a program can make a write synchronous.

use std::io::IoSlice;

use rustix::io::{ReadWriteFlags, pwritev2};

use crate::prelude::*;

/// `O_DSYNC`, the older bit of `O_SYNC`; rustix has no correct constant for it.
const O_DSYNC: OFlags = OFlags::from_bits_retain(0o10_000);

/// One of them: the flags of `open`, and those of `pwritev2`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way(OFlags, ReadWriteFlags);

pub(crate) const WAYS: [Way; 6] = [
    Way(OFlags::SYNC, ReadWriteFlags::empty()),
    Way(O_DSYNC, ReadWriteFlags::empty()),
    Way(OFlags::DIRECT.union(O_DSYNC), ReadWriteFlags::empty()),
    Way(OFlags::empty(), ReadWriteFlags::DSYNC),
    Way(OFlags::empty(), ReadWriteFlags::SYNC),
    Way(O_DSYNC, ReadWriteFlags::DSYNC),
];

impl Way {
    /// Opens a file for writing.
    #[track_caller]
    pub(crate) fn open(self, path: &Path) -> File {
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(self.0.bits() as i32);
        options.open(path).unwrap()
    }

    /// Writes all of `bytes` at `offset` of a file that was opened by [`Self::open`].
    pub(crate) fn write(self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        match pwritev2(file, &[IoSlice::new(bytes)], offset, self.1)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}
