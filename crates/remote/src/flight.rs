use std::{sync::Arc, time::Duration};

use verimount_sync::{Condvar, Mutex};

use crate::Error;

/// How the fetch of a granule ended.
type Landed = Result<Arc<Vec<u8>>, Error>;

/// A granule that is being fetched, or was. Any number of readers wait for one fetch.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    landed: Option<Landed>,
    /// Why the last attempt failed, while it is tried again.
    trouble: Option<Error>,
}

/// How long a reader waits for a granule.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    /// This long, whatever happens meanwhile.
    Full(Duration),
    /// This long, as long as no attempt has failed: the reader can ask elsewhere.
    WhileWell(Duration),
}

impl Flight {
    pub(crate) fn land(&self, end: Result<Vec<u8>, Error>) {
        let before = self.state.lock().landed.replace(end.map(Arc::new));
        debug_assert!(before.is_none(), "a granule lands once");
        self.changed.notify_all();
    }

    /// Its bytes, if nobody else has them.
    pub(crate) fn into_bytes(self) -> Option<Vec<u8>> {
        Arc::into_inner(self.state.into_inner().landed?.ok()?)
    }

    /// An attempt to fetch it has failed and is repeated, or no longer has failed.
    pub(crate) fn set_trouble(&self, trouble: Option<Error>) {
        self.state.lock().trouble = trouble;
        self.changed.notify_all();
    }

    /// Waits for its bytes.
    ///
    /// # Errors
    /// That of the fetch, or of an attempt if that ends the reader's patience, or [`Error::TimedOut`].
    pub(crate) fn wait(&self, patience: Patience) -> Landed {
        let (after, ends_by_trouble) = match patience {
            Patience::Full(after) => (after, false),
            Patience::WhileWell(after) => (after, true),
        };
        let is_open = |state: &mut State| {
            state.landed.is_none() && !(ends_by_trouble && state.trouble.is_some())
        };
        let state = self.state.lock();
        let state = self.changed.wait_timeout_while(state, after, is_open);
        if let Some(landed) = &state.landed {
            return landed.clone();
        }
        let trouble = state.trouble.clone().filter(|_| ends_by_trouble);
        Err(trouble.unwrap_or(Error::TimedOut { after }))
    }
}
