//! Ctrl-C ends a task early but in order, so that what it mounted is unmounted.

use std::sync::{Arc, LazyLock, atomic::AtomicBool, atomic::Ordering::Relaxed};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static ASKED_TO_STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on, a signal that asks to stop is recorded and does not end the process at once.
///
/// # Errors
/// A signal that cannot be caught.
pub fn catch() -> Result<()> {
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ASKED_TO_STOP))?;
    }
    Ok(())
}

/// Fails if such a signal has come. This is checked after every command: a terminal sends Ctrl-C to that
/// command too, so it ends soon.
pub fn check() -> Result<()> {
    if ASKED_TO_STOP.load(Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
