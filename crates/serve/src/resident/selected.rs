use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use verimount_tree::{Attr, Error, FileType, NodeId, Tree, walk};

/// Files of a tree that are to be resident: regular files with content.
pub struct SelectedFiles(Option<HashSet<NodeId>>);

impl SelectedFiles {
    /// All of them.
    pub fn all() -> Self {
        Self(None)
    }

    /// Those of `tree` whose path below the root matches; `None` if there is none.
    ///
    /// # Errors
    /// Those of the tree.
    pub fn find(tree: &dyn Tree, matches: impl Fn(&Path) -> bool) -> Result<Option<Self>, Error> {
        let mut found = HashSet::new();
        walk(tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
            if has_content(attr) && matches(path) {
                found.insert(attr.node);
            }
            Ok::<_, Error>(())
        })?;
        Ok((!found.is_empty()).then_some(Self(Some(found))))
    }

    /// Whether a file is one of them.
    pub(super) fn contains(&self, attr: &Attr) -> bool {
        let is_selected = |nodes: &HashSet<NodeId>| nodes.contains(&attr.node);
        has_content(attr) && self.0.as_ref().is_none_or(is_selected)
    }
}

fn has_content(attr: &Attr) -> bool {
    attr.file_type == FileType::RegularFile && attr.size > 0
}
