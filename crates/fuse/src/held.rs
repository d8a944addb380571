//! Requests that a file system holds back.

use std::sync::Arc;

use rustix::io::Errno;

use crate::pool::Pool;

/// What an operation returns that has done nothing yet, to be asked again later: its caller waits, without a thread. Only with
/// [`SessionOptions::holds`](crate::SessionOptions::holds). The kernel has this number for itself.
pub const HELD: Errno = Errno::from_raw_os_error(512);

/// A request that is held back.
#[must_use]
pub struct Held {
    pub(crate) request: u64,
    pub(crate) pool: Arc<Pool>,
}

impl Held {
    /// Its number, which its [`Caller`](crate::Caller) had.
    pub fn request(&self) -> u64 {
        self.request
    }

    /// Asks the file system again.
    pub fn again(self) {
        if let Some(waiting) = self.pool.held.take(self.request) {
            self.pool.begin_again(waiting);
        }
    }

    /// Fails it.
    pub fn fail(self, error: Errno) {
        if let Some(waiting) = self.pool.held.take(self.request) {
            waiting.device.reply(waiting.unique, Err(error));
        }
    }
}
