use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hash},
    sync::Arc,
};

use verimount_sync::{Mutex, MutexGuard};

/// Number of parts of the table, each with its own lock.
const SHARDS: usize = 16;

/// The inodes that are open, and what all opens of each share: how the kernel is to serve them.
///
/// The kernel fails an open with `EIO` if the inode is open both passed through and cached, or with two backing
/// ids. So the first open decides, and further ones use what it decided until the last is closed.
pub struct OpenInodes<Id, Shared> {
    shards: [Mutex<HashMap<Id, Inode<Shared>>>; SHARDS],
    hasher: RandomState,
}

/// An inode that is open or is being opened.
struct Inode<Shared> {
    opens: usize,
    shared: Arc<Mutex<Option<Shared>>>,
}

impl<Id, Shared> Default for OpenInodes<Id, Shared> {
    fn default() -> Self {
        Self {
            shards: Default::default(),
            hasher: RandomState::new(),
        }
    }
}

impl<Shared> Default for Inode<Shared> {
    fn default() -> Self {
        Self {
            opens: 0,
            shared: Arc::default(),
        }
    }
}

impl<Id: Copy + Eq + Hash, Shared> OpenInodes<Id, Shared> {
    /// Opens an inode once more, which must be [closed](Self::close) even if this fails. `decide` gets what its opens share:
    /// nothing if this is the first. It may wait; only other opens of this inode wait for it.
    ///
    /// # Errors
    /// Those of `decide`.
    pub fn open<T, E>(
        &self,
        id: Id,
        decide: impl FnOnce(&mut Option<Shared>) -> Result<T, E>,
    ) -> Result<T, E> {
        let shared = {
            let mut shard = self.shard(id);
            let inode = shard.entry(id).or_default();
            inode.opens += 1;
            Arc::clone(&inode.shared)
        };
        let mut shared = shared.lock();
        decide(&mut shared)
    }

    /// Closes an inode once. The last time, returns what its opens shared.
    pub fn close(&self, id: Id) -> Option<Shared> {
        let mut shard = self.shard(id);
        let inode = shard.get_mut(&id);
        debug_assert!(inode.is_some(), "what is closed was open");
        let inode = inode?;
        inode.opens -= 1;
        if inode.opens > 0 {
            return None;
        }
        let inode = shard.remove(&id)?;
        Arc::into_inner(inode.shared).and_then(Mutex::into_inner)
    }

    fn shard(&self, id: Id) -> MutexGuard<'_, HashMap<Id, Inode<Shared>>> {
        self.shards[self.hasher.hash_one(id) as usize % SHARDS].lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_open_decides_until_the_last_close() {
        let inodes = OpenInodes::default();
        let open =
            |id, decision| inodes.open(id, |shared| Ok::<_, ()>(*shared.get_or_insert(decision)));
        assert_eq!(open(1, "first"), Ok("first"));
        assert_eq!(open(1, "second"), Ok("first"));
        assert_eq!(open(2, "other"), Ok("other"));
        assert_eq!(inodes.close(1), None);
        assert_eq!(inodes.close(1), Some("first"));
        assert_eq!(open(1, "third"), Ok("third"));
    }

    #[test]
    fn an_open_that_fails_decides_nothing() {
        let inodes = OpenInodes::<u64, ()>::default();
        assert_eq!(inodes.open(1, |_| Err::<(), _>("no")), Err("no"));
        assert_eq!(inodes.close(1), None);
        assert!(inodes.shards.iter().all(|shard| shard.lock().is_empty()));
    }
}
