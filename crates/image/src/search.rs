use std::{collections::HashSet, path::PathBuf};

use crate::{Inode, Tree};

/// The most directories that are looked into for a name.
const MAX_DIRECTORIES: usize = 1 << 20;

/// A path of `wanted` from the root, which is `/`; `None` if there is none in any directory that
/// can be read.
pub fn find_path(tree: &dyn Tree, wanted: Inode) -> Option<PathBuf> {
    let root = PathBuf::from("/");
    if wanted == Inode::ROOT {
        return Some(root);
    }
    // A broken image may have directories inside themselves: none is looked into twice.
    let mut seen = HashSet::from([Inode::ROOT]);
    let mut pending = vec![(Inode::ROOT, root)];
    while let Some((inode, path)) = pending.pop() {
        let Ok(directory) = tree.directory(inode) else {
            continue;
        };
        for entry in directory.entries() {
            if entry.attr.inode == wanted {
                return Some(path.join(&*entry.name));
            }
            if entry.attr.is_directory()
                && seen.len() < MAX_DIRECTORIES
                && seen.insert(entry.attr.inode)
            {
                pending.push((entry.attr.inode, path.join(&*entry.name)));
            }
        }
    }
    None
}
