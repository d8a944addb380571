//! What no system could read of an image, although the format has room for it.

use verimount_scan::{Entry, SourceTree};

use super::error::{BuildError, Unstorable};
use crate::directory_block::MAX_NAME;

/// Refuses it.
pub(super) fn check(tree: &SourceTree) -> Result<(), BuildError> {
    tree.entries().try_for_each(|entry| {
        check_entry(entry).map_err(|reason| BuildError::Unstorable {
            path: entry.path(),
            reason,
        })
    })
}

/// Some file systems have longer names than Linux lists: 255 characters of several bytes each.
fn check_entry(entry: Entry<'_>) -> Result<(), Unstorable> {
    let len = entry.name().len();
    match len > MAX_NAME {
        true => Err(Unstorable::NameTooLong(len)),
        false => Ok(()),
    }
}
