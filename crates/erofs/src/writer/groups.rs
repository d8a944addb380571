//! How an image stays the same where its tree does, so that a copy of an older image has most blocks of it.
//!
//! Contents say nothing of where they are: if something grows before them, they move by whole blocks, which stay the same. For
//! small files that are packed into blocks this holds if they are packed in *groups*, each by itself. Which files may end a group
//! is decided by their paths. So soon after a difference, the groups of two releases of a tree have the same files again.

use std::os::unix::ffi::OsStrExt;

use verimount_scan::Entry;

use crate::block_size::BlockSize;

/// The least blocks of a group that does not end because nothing follows. Half a block of each is unused on average.
const LEAST: u64 = 12;

/// Of the last of these blocks, one part of so many may be unused. Otherwise groups of the smallest files would end just behind
/// it, and leave most of another block unused.
const UNUSED: u64 = 4;

/// Of so many files, one may end a group.
const FILES: u32 = 8;

/// Of all paths a different number, as far as possible. It is the same in all trees.
pub(super) fn number_of(entry: Entry<'_>) -> u32 {
    crc32c::crc32c(entry.path_inside().as_os_str().as_bytes())
}

/// Whether a group with so many bytes ends with this file.
pub(super) fn ends_group(entry: Entry<'_>, len: u64, block: BlockSize) -> bool {
    let least = LEAST * block.bytes() - block.bytes() / UNUSED;
    len >= least && number_of(entry).is_multiple_of(FILES)
}
