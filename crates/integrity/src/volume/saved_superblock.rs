use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, Superblock, geometry::Geometry, mac::Mac, storage::Storage};

/// The superblock as it is stored.
pub(crate) struct SavedSuperblock {
    storage: Arc<Storage>,
    offset: u64,
    mac: Option<Mac>,
    current: Mutex<Superblock>,
}

impl SavedSuperblock {
    pub(crate) fn new(
        storage: Arc<Storage>,
        geometry: &Geometry,
        mac: Option<Mac>,
        current: Superblock,
    ) -> Self {
        Self {
            storage,
            offset: geometry.superblock_offset(),
            mac,
            current: Mutex::new(current),
        }
    }

    /// A copy of it.
    pub(crate) fn get(&self) -> Superblock {
        self.current().clone()
    }

    /// Changes it, and returns when the change survives a crash.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), Error> {
        let mut current = self.current();
        change(&mut current);
        self.storage
            .write_metadata_durable(&current.encode(self.mac.as_ref()), self.offset)
    }

    // What a panic leaves has not been written, and any superblock is a valid one.
    fn current(&self) -> MutexGuard<'_, Superblock> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
