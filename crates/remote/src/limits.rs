use std::time::Duration;

use crate::granules::PART;

/// Redirects that are followed for one request.
pub(crate) const MAX_REDIRECTS: u32 = 5;

/// The largest head of an answer, in bytes.
pub(crate) const MAX_HEAD: usize = 16 << 10;

/// How long looking up a host may take, and how long a connection with TLS.
pub(crate) const CONNECT: Duration = Duration::from_secs(10);

/// The largest file, in bytes: offsets in files are signed on Linux. What is added to an offset in one or rounded up from it, up
/// to a whole request, does not overflow.
pub(crate) const MAX_SIZE: u64 = i64::MAX as u64;

/// The longest that a read waits: 136 years, which any clock can be ahead.
const MAX_TIMEOUT: Duration = Duration::from_secs(u32::MAX as u64);

/// How much of a hint is followed, in bytes: two of the largest requests.
pub(crate) const MAX_HINT: u64 = 2 * PART;

/// What bounds the time for one file. Tests have other values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How long opening retries.
    pub(crate) open: Duration,
    /// How long a reader waits for the next granule, and how long that is retried.
    pub(crate) read: Duration,
    /// How long a connection may be silent before it is given up.
    pub(crate) silence: Duration,
    /// How long a manifest may take to arrive: each byte may come in time, but all of them never.
    pub(crate) manifest: Duration,
    /// The first pause between two attempts. It is doubled each time.
    pub(crate) first_pause: Duration,
    /// The longest pause that is not the server's wish.
    pub(crate) longest_pause: Duration,
}

impl Limits {
    /// Those of a session whose reads wait this long.
    pub(crate) fn of_timeout(timeout: Duration) -> Self {
        let usual = Self::default();
        let read = timeout.clamp(Duration::from_secs(1), MAX_TIMEOUT);
        Self {
            read,
            // A read opens the file if everything was on disk until then.
            open: usual.open.min(read),
            // After this time the next read asks anew, also if nobody waits any longer.
            silence: usual.silence.min(read),
            manifest: usual.manifest.min(read),
            ..usual
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            open: Duration::from_secs(15),
            read: Duration::from_secs(60),
            silence: Duration::from_secs(10),
            manifest: Duration::from_secs(30),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(10),
        }
    }
}
