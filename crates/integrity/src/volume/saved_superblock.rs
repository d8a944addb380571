use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, Superblock, mac::Mac, storage::Storage};

/// The stored superblock, and a copy in memory.
pub(crate) struct SavedSuperblock {
    storage: Arc<Storage>,
    mac: Option<Mac>,
    current: Mutex<Superblock>,
}

impl SavedSuperblock {
    pub(crate) fn new(storage: Arc<Storage>, mac: Option<Mac>, current: Superblock) -> Self {
        Self {
            storage,
            mac,
            current: Mutex::new(current),
        }
    }

    /// A copy of the superblock.
    pub(crate) fn get(&self) -> Superblock {
        self.current().clone()
    }

    /// Changes the superblock, and returns when the change is durable.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), Error> {
        let mut current = self.current();
        let mut changed = current.clone();
        change(&mut changed);
        self.storage
            .write_metadata_durable(&changed.encode(self.mac.as_ref()), 0)?;
        *current = changed;
        Ok(())
    }

    // Changed by a single assignment, so a panic cannot leave it half done.
    fn current(&self) -> MutexGuard<'_, Superblock> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
