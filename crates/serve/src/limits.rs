//! Limits that all mounts request in the INIT negotiation.

use std::time::Duration;

use verimount_fuse::{Answering, Capabilities, SessionOptions};

/// The largest request, in bytes: the kernel's maximum.
pub(crate) const MAX_REQUEST: u32 = 1 << 20;

/// The most that one request copies from file to file, in bytes: some ten milliseconds of a thread, and more
/// than a copy that shares blocks takes per request. Callers of `copy_file_range` go on after a short copy.
pub(crate) const MAX_COPY: u64 = 16 << 20;

/// What a mount requests that reads and writes in requests of the largest size.
pub(crate) const fn session(capabilities: Capabilities, answering: Answering) -> SessionOptions {
    SessionOptions {
        capabilities,
        max_read: MAX_REQUEST,
        max_write: MAX_REQUEST,
        max_readahead: MAX_REQUEST,
        max_background: MAX_BACKGROUND,
        max_stack_depth: 0,
        request_timeout: 0,
        answering,
        holds: false,
    }
}

/// How many background requests, for which no caller waits, the kernel may have in flight: read-ahead,
/// for example.
const MAX_BACKGROUND: u16 = 128;

/// How long the kernel may cache what never changes: without limit.
pub(crate) const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
