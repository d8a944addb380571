use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use crate::Error;

/// Ends pauses between attempts when a file or session is closed.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    is_closed: Mutex<bool>,
    said: Condvar,
}

impl Closing {
    pub(crate) fn close(&self) {
        *self
            .is_closed
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.said.notify_all();
    }

    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.pause(Duration::ZERO)
    }

    /// Waits, unless it is closed before.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn pause(&self, pause: Duration) -> Result<(), Error> {
        let is_closed = self
            .is_closed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .said
            .wait_timeout_while(is_closed, pause, |closed| !*closed);
        match *waited.unwrap_or_else(PoisonError::into_inner).0 {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }
}
