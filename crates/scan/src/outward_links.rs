use std::path::PathBuf;

use crate::{Entry, InodeKind, SourceTree};

/// Symbolic links by which nothing in the tree is reached: their targets begin with more `..` than there are directories above
/// them. Absolute ones are not counted, as they are right in the root directory of a system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutwardLinks {
    /// How many names they have.
    pub count: usize,
    /// The first in walk order, below the root.
    pub first: PathBuf,
}

impl OutwardLinks {
    /// Finds those of a tree. Directories in targets count as what their names say, also if they are links themselves.
    pub fn of(tree: &SourceTree) -> Self {
        let mut links = tree.entries().filter(|entry| leads_out(*entry));
        match links.next() {
            None => Self::default(),
            Some(first) => Self {
                count: 1 + links.count(),
                first: first.path_inside(),
            },
        }
    }
}

fn leads_out(entry: Entry<'_>) -> bool {
    let InodeKind::Symlink(target) = &entry.inode().kind else {
        return false;
    };
    if target.starts_with(b"/") {
        return false;
    }
    let mut depth = entry.depth() - 1;
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}
