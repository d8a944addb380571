//! The locks that the kernel holds while it waits for the answer to a request.

use std::{
    collections::HashSet,
    sync::{Condvar, Mutex},
};

use verimount_bridge::NodeId;

/// Something that is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Of a directory in which a name is made, moved or removed, or a file to which this happens.
    Node(NodeId),
    /// Of all renames from one directory to another.
    Renames,
}

#[derive(Default)]
pub(super) struct Locks {
    held: Mutex<HashSet<Key>>,
    released: Condvar,
}

/// Locks that are held until this is dropped.
pub(super) struct Locked<'a> {
    keys: HashSet<Key>,
    locks: &'a Locks,
}

impl Locks {
    /// Waits until none of these is held, and takes all.
    pub(super) fn lock(&self, keys: impl IntoIterator<Item = Key>) -> Locked<'_> {
        let keys: HashSet<Key> = keys.into_iter().collect();
        let held = self.held.lock().unwrap();
        let wait = |held: &mut HashSet<Key>| !held.is_disjoint(&keys);
        let mut held = self.released.wait_while(held, wait).unwrap();
        held.extend(&keys);
        drop(held);
        Locked { keys, locks: self }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Not poisoned: nothing panics while holding it.
        let mut held = self.locks.held.lock().unwrap();
        held.retain(|key| !self.keys.contains(key));
        self.locks.released.notify_all();
    }
}
