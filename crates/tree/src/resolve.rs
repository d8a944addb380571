use std::path::Path;

use crate::{Error, NodeId, Tree};

/// The file at a path from the root; symbolic links are not followed.
///
/// # Errors
/// Any [`Error`]; [`Error::NotFound`] also for `.` and `..`, which are not entries of a directory.
pub fn resolve(tree: &dyn Tree, path: &Path) -> Result<NodeId, Error> {
    path.strip_prefix("/")
        .unwrap_or(path)
        .iter()
        .try_fold(NodeId::ROOT, |directory, name| {
            Ok(tree.lookup(directory, name)?.node)
        })
}
