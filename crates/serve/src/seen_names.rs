use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

use quick_cache::sync::Cache;
use verimount_tree::NodeId;

/// The most names that are remembered: some MB.
const MAX_NAMES: usize = 1 << 15;

/// The most directories of a path, as names of a damaged image can form a loop.
const MAX_DEPTH: usize = 2048;

/// The names by which files were looked up last, so that messages can tell a path without a search.
pub(crate) struct SeenNames(Cache<NodeId, (NodeId, Arc<OsStr>)>);

impl SeenNames {
    pub(crate) fn new() -> Self {
        Self(Cache::new(MAX_NAMES))
    }

    /// Remembers that `directory` has `node` under this name.
    pub(crate) fn note(&self, directory: NodeId, name: &OsStr, node: NodeId) {
        let is_known =
            |(parent, known): (NodeId, Arc<OsStr>)| parent == directory && &*known == name;
        if !self.0.get(&node).is_some_and(is_known) {
            self.0.insert(node, (directory, name.into()));
        }
    }

    /// The path from the root, if all names of it are remembered.
    pub(crate) fn path(&self, mut node: NodeId) -> Option<PathBuf> {
        let mut names = Vec::new();
        while node != NodeId::ROOT {
            if names.len() == MAX_DEPTH {
                return None;
            }
            let (directory, name) = self.0.get(&node)?;
            names.push(name);
            node = directory;
        }
        let names = names.iter().rev();
        Some(names.fold(PathBuf::from("/"), |path, name| path.join(Path::new(name))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u64) -> NodeId {
        NodeId::new(number).unwrap()
    }

    #[test]
    fn a_path_is_made_of_names() {
        let seen = SeenNames::new();
        let [folder, file] = [node(70), node(80)];
        seen.note(folder, "file".as_ref(), file);
        assert_eq!(seen.path(file), None);
        seen.note(NodeId::ROOT, "folder".as_ref(), folder);
        assert_eq!(seen.path(file), Some("/folder/file".into()));
        seen.note(NodeId::ROOT, "moved".as_ref(), folder);
        assert_eq!(seen.path(file), Some("/moved/file".into()));
        assert_eq!(seen.path(NodeId::ROOT), Some("/".into()));
    }

    #[test]
    fn a_loop_has_no_path() {
        let seen = SeenNames::new();
        let [one, other] = [node(70), node(80)];
        seen.note(one, "x".as_ref(), other);
        seen.note(other, "y".as_ref(), one);
        assert_eq!(seen.path(one), None);
    }
}
