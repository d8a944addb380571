use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

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
        *self.lock() = Some(end.map(Arc::new));
        self.changed.notify_all();
    }

    /// Its bytes, if nobody else has them.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        let landed = self.landed.into_inner();
        let landed = landed.unwrap_or_else(PoisonError::into_inner);
        Arc::into_inner(landed?.ok()?)
    }

    /// Waits for its bytes.
    ///
    /// # Errors
    /// That of the fetch, or [`Error::TimedOut`].
    pub(crate) fn wait(&self, patience: Duration) -> Landed {
        let deadline = Instant::now() + patience;
        let mut landed = self.lock();
        loop {
            if let Some(end) = &*landed {
                return end.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::TimedOut { after: patience });
            }
            let waited = self.changed.wait_timeout(landed, left);
            landed = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Landed>> {
        // It is only ever replaced as a whole.
        self.landed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
