use std::{
    collections::{HashMap, hash_map},
    ffi::OsStr,
    ops::ControlFlow,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{Attr, Inode, Tree};

/// The most names that are looked at, so that they take less than some 60 MB.
const MAX_NAMES: usize = 1 << 18;

/// How long is looked for names before what was found must do: what asks for them waits for it, and
/// a broken image may have very many directories that take long to read and then cannot be.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest path in bytes: Linux takes no longer ones.
const MAX_LEN: usize = 4095;

/// Paths of a tree's inodes, found in one walk.
#[derive(Debug)]
pub struct Paths {
    /// The directory that each is in, and its name there.
    names: HashMap<Inode, (Inode, Box<OsStr>)>,
}

impl Paths {
    /// Looks into all directories that can be read, for a bounded time and number of names.
    pub fn new(tree: &dyn Tree) -> Self {
        let mut names = HashMap::new();
        let mut looked_at = 0;
        let mut pending = vec![Inode::ROOT];
        let give_up = Instant::now() + PATIENCE;
        while let Some(directory) = pending.pop().filter(|_| Instant::now() < give_up) {
            let mut add = |name: &OsStr, attr: &Attr| {
                if looked_at == MAX_NAMES {
                    return ControlFlow::Break(());
                }
                looked_at += 1;
                // A broken image may have directories inside themselves: none is entered twice.
                if let hash_map::Entry::Vacant(vacant) = names.entry(attr.inode) {
                    vacant.insert((directory, name.into()));
                    if attr.is_directory() {
                        pending.push(attr.inode);
                    }
                }
                ControlFlow::Continue(())
            };
            // What cannot be read has no names.
            let _ = tree.list(directory, 0, &mut add);
            if looked_at == MAX_NAMES {
                break;
            }
        }
        Self { names }
    }

    /// A path of `inode` from the root, which is `/`.
    pub fn get(&self, mut inode: Inode) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut len = 0;
        while inode != Inode::ROOT {
            let (directory, name) = self.names.get(&inode)?;
            len += 1 + name.len();
            if len > MAX_LEN {
                return None;
            }
            names.push(&**name);
            inode = *directory;
        }
        names.push(OsStr::new("/"));
        Some(names.into_iter().rev().collect())
    }
}
