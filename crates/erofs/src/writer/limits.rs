//! What is refused although the format has room for it: nobody could read it, or its holes would fill a disk.

use verimount_scan::{Entry, InodeKind, SourceTree};

use super::{BuildError, Unstorable, chunk_map::ChunkMap};
use crate::{block_size::BlockSize, directory_block::MAX_NAME};

/// Refuses it.
pub(super) fn check(tree: &SourceTree, block: BlockSize) -> Result<(), BuildError> {
    tree.entries().try_for_each(|entry| {
        check_entry(entry, block).map_err(|reason| BuildError::unstorable(entry, reason))
    })
}

fn check_entry(entry: Entry<'_>, block: BlockSize) -> Result<(), Unstorable> {
    // Some file systems have longer names than Linux lists: 255 characters of several bytes each.
    let len = entry.name().len();
    if len > MAX_NAME {
        return Err(Unstorable::NameTooLong(len));
    }
    if let InodeKind::File(file) = &entry.inode().kind
        && entry.is_first_name()
        && ChunkMap::new(file, block).is_some_and(|map| map.is_wasteful(block))
    {
        return Err(Unstorable::Holes);
    }
    Ok(())
}
