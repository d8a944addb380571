use std::sync::Arc;

use verimount_sync::Mutex;

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
        self.current.lock().clone()
    }

    /// Changes the superblock, and returns when the change is durable.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), Error> {
        let mut current = self.current.lock();
        let mut changed = current.clone();
        change(&mut changed);
        self.storage
            .write_metadata_durable(&changed.encode(self.mac.as_ref()), 0)?;
        *current = changed;
        Ok(())
    }
}
