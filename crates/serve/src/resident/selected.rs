use std::{
    collections::HashSet,
    ops::ControlFlow::{Break, Continue},
    path::Path,
};

use verimount_tree::{Attr, Error, FileType, NodeId, Tree, walk_readable};

use crate::verified_tree::is_mismatch;

/// Files of a tree that are to be resident: regular files with content.
pub struct SelectedFiles(Option<HashSet<NodeId>>);

impl SelectedFiles {
    /// All of them.
    pub fn all() -> Self {
        Self(None)
    }

    /// Those of `tree` whose path below the root matches; `None` if there is none. What is damaged so that it is not found
    /// cannot be opened either.
    ///
    /// # Errors
    /// Those of reading the tree, unless it is damaged.
    pub fn find(tree: &dyn Tree, matches: impl Fn(&Path) -> bool) -> Result<Option<Self>, Error> {
        let mut selected = HashSet::new();
        let mut select = |(path, node): (&Path, NodeId)| {
            if matches(path) && has_content(&tree.attr(node)?) {
                selected.insert(node);
            }
            Ok(())
        };
        let mut failure = None;
        let _ = walk_readable(tree, |found| match found.and_then(&mut select) {
            Err(error) if is_failed_read(&error) => {
                failure = Some(error);
                Break(())
            }
            _ => Continue(()),
        });
        match failure {
            Some(error) => Err(error),
            None => Ok((!selected.is_empty()).then_some(Self(Some(selected)))),
        }
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

/// Whether it could not be read at all: it may be found later.
fn is_failed_read(error: &Error) -> bool {
    error.read_error().is_some() && !is_mismatch(error)
}
