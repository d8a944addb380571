//! Limits that all mounts request in the INIT negotiation.

use std::time::Duration;

/// The largest request, in bytes: the kernel's maximum.
pub(crate) const MAX_REQUEST: u32 = 1 << 20;

/// The most that one request copies from file to file, in bytes: some ten milliseconds of a thread, and more
/// than a copy that shares blocks takes per request. Callers of `copy_file_range` go on after a short copy.
pub(crate) const MAX_COPY: u64 = 16 << 20;

/// How many background requests, for which no caller waits, the kernel may have in flight: read-ahead,
/// for example.
pub(crate) const MAX_BACKGROUND: u16 = 128;

/// How long the kernel may cache what never changes: without limit.
pub(crate) const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
