use std::time::Duration;

use parking_lot::{Condvar, Mutex};

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
        let mut is_closed = self.is_closed.lock();
        self.said
            .wait_while_for(&mut is_closed, |closed| !*closed, pause);
        match *is_closed {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }
}
