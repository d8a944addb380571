//! What all mounts agree on with the kernel.

use std::time::Duration;

/// The largest request, in bytes: as much as the kernel puts into one.
pub(crate) const MAX_REQUEST: u32 = 1 << 20;

/// How many requests that nobody waits for, such as reads ahead, the kernel may have under way at
/// once.
pub(crate) const MAX_BACKGROUND: u16 = 128;

/// How long the kernel may keep what never changes: for as long as it likes.
pub(crate) const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
