use std::time::Duration;

use verimount_sync::{Condvar, Mutex};

use crate::Error;

/// Ends pauses between attempts when a file or session is closed.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    is_closed: Mutex<bool>,
    said: Condvar,
}

impl Closing {
    pub(crate) fn close(&self) {
        *self.is_closed.lock() = true;
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
        let is_closed = self.is_closed.lock();
        let is_closed = self
            .said
            .wait_timeout_while(is_closed, pause, |closed| !*closed);
        if *is_closed {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }
}
