use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::Error;

/// How the fetch of a granule ended.
type Landed = Result<Arc<Vec<u8>>, Error>;

/// A granule that is being fetched, or was. Any number of readers wait for one fetch.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    landed: Mutex<Option<Landed>>,
    changed: Condvar,
}

impl Flight {
    pub(crate) fn land(&self, end: Result<Vec<u8>, Error>) {
        *self.landed.lock() = Some(end.map(Arc::new));
        self.changed.notify_all();
    }

    /// Its bytes, if nobody else has them.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        Arc::into_inner(self.landed.into_inner()?.ok()?)
    }

    /// Waits for its bytes.
    ///
    /// # Errors
    /// That of the fetch, or [`Error::TimedOut`].
    pub(crate) fn wait(&self, patience: Duration) -> Landed {
        let deadline = Instant::now() + patience;
        let mut landed = self.landed.lock();
        loop {
            if let Some(end) = &*landed {
                return end.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::TimedOut { after: patience });
            }
            self.changed.wait_for(&mut landed, left);
        }
    }
}
