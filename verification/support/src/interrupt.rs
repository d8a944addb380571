//! Ctrl-C ends a task early but in order, so that what it mounted is unmounted.

use std::sync::{Arc, LazyLock, atomic::AtomicBool, atomic::Ordering::Relaxed};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static ASKED_TO_STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on a signal that asks to stop is noted instead of ending the process at once.
///
/// # Errors
/// A signal that cannot be caught.
pub fn catch() -> Result<()> {
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ASKED_TO_STOP))?;
    }
    Ok(())
}

/// Fails where such a signal has come. Checked after every command that is run: a terminal sends
/// the signal to that command too, so its end is near when someone presses Ctrl-C.
pub fn check() -> Result<()> {
    if ASKED_TO_STOP.load(Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
