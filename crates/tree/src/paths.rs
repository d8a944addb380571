use std::{
    collections::{HashMap, hash_map},
    ffi::OsStr,
    ops::ControlFlow,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{Cursor, DirEntry, FileType, NodeId, Tree};

/// The most names that are visited, so that they take less than some 60 MB.
const MAX_NAMES: usize = 1 << 18;

/// The most time that the walk takes: callers wait for it, and a damaged image can have many directories
/// that take long to read and then fail. Nodes that it did not reach have no path.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest path in bytes: Linux takes no longer ones.
const MAX_LEN: usize = 4095;

/// Paths of a tree's files, found in one walk.
#[derive(Debug)]
pub struct Paths {
    /// The directory that each is in, and its name there.
    names: HashMap<NodeId, (NodeId, Box<OsStr>)>,
}

impl Paths {
    /// Visits all directories that can be read, within the limits of time and number of names.
    pub fn new(tree: &dyn Tree) -> Self {
        let mut names = HashMap::new();
        let mut looked_at = 0;
        let mut pending = vec![NodeId::ROOT];
        let give_up = Instant::now() + PATIENCE;
        while let Some(directory) = pending.pop().filter(|_| Instant::now() < give_up) {
            let mut add = |entry: DirEntry<'_>, _| {
                if looked_at == MAX_NAMES {
                    return ControlFlow::Break(());
                }
                looked_at += 1;
                // In a damaged image a directory can contain itself: none is entered twice.
                if let hash_map::Entry::Vacant(vacant) = names.entry(entry.node) {
                    vacant.insert((directory, entry.name.into()));
                    if entry.file_type == FileType::Directory {
                        pending.push(entry.node);
                    }
                }
                ControlFlow::Continue(())
            };
            // A directory that cannot be read contributes no names.
            let _ = tree.list(directory, Cursor::START, &mut add);
            if looked_at == MAX_NAMES {
                break;
            }
        }
        Self { names }
    }

    /// A path of `node` from the root, which is `/`.
    pub fn get(&self, mut node: NodeId) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut len = 0;
        while node != NodeId::ROOT {
            let (directory, name) = self.names.get(&node)?;
            len += 1 + name.len();
            if len > MAX_LEN {
                return None;
            }
            names.push(&**name);
            node = *directory;
        }
        names.push(OsStr::new("/"));
        Some(names.into_iter().rev().collect())
    }
}
