use std::{sync::Arc, time::Duration};

use verimount_sync::{Condvar, Mutex};

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
        let before = self.landed.lock().replace(end.map(Arc::new));
        debug_assert!(before.is_none(), "a granule lands once");
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
        let is_coming = |landed: &mut Option<Landed>| landed.is_none();
        let landed = self.landed.lock();
        let landed = self.changed.wait_timeout_while(landed, patience, is_coming);
        let late = || Err(Error::TimedOut { after: patience });
        landed.clone().unwrap_or_else(late)
    }
}
