use std::{sync::atomic::Ordering::Relaxed, time::SystemTime};

use verimount_source::counters;

use crate::Error;

counters! {
    /// What a [`Session`](crate::Session) has done so far.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[non_exhaustive]
    pub struct RemoteStats {
        /// Requests that were sent, with those that were redirected or failed.
        requests,
        /// Bytes of files that were received.
        bytes,
        /// Attempts that were repeated as the server could not answer then.
        retries_busy,
        /// Those that were as no connection could be made.
        retries_unreachable,
        /// Those that were as a transfer broke off.
        retries_broken,
        /// Bytes that were dropped because what uses them found them wrong.
        distrusted,
        /// How often a file was of another version than before.
        changes,
    }
    /// Counts for [`RemoteStats`].
    pub(crate) struct Counters;
}

/// A request or transfer that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFailure {
    /// What was wrong.
    pub error: Error,
    /// When.
    pub at: SystemTime,
}

impl Counters {
    pub(crate) fn retried(&self, error: &Error) {
        let count = match error {
            Error::Busy { .. } => &self.retries_busy,
            Error::Unreachable(_) => &self.retries_unreachable,
            _ => &self.retries_broken,
        };
        count.fetch_add(1, Relaxed);
    }
}
