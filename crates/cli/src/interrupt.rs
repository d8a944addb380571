use std::{
    fs, io,
    ops::ControlFlow,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The number of the signal that has interrupted this process; 0 if none has.
static RECEIVED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// The work was not completed, as a signal has interrupted it.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// The number of the signal that has interrupted this process.
pub(crate) fn received_signal() -> Option<u8> {
    u8::try_from(RECEIVED.load(Relaxed))
        .ok()
        .filter(|signal| *signal > 0)
}

/// Watches for SIGHUP, SIGINT and SIGTERM from the first call on, so that the command can clean up before it ends. A second
/// signal ends the process.
///
/// Signals that were ignored at start, as `nohup` does with SIGHUP, stay ignored.
pub(crate) fn watch() -> io::Result<()> {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if IS_WATCHED.swap(true, Relaxed) {
        return Ok(());
    }
    let is_asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        if is_ignored(signal) {
            continue;
        }
        // Registered first, so that the first signal finds the flag unset.
        signal_hook::flag::register_conditional_default(signal, is_asked.clone())?;
        let number = usize::try_from(signal).unwrap_or(0);
        signal_hook::flag::register_usize(signal, RECEIVED.clone(), number)?;
        signal_hook::flag::register(signal, is_asked.clone())?;
    }
    Ok(())
}

/// Whether to continue.
pub(crate) fn go_on() -> ControlFlow<()> {
    match received_signal() {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    }
}

/// Whether the process was started to ignore a signal, as `nohup` does with SIGHUP.
pub(crate) fn is_ignored(signal: i32) -> bool {
    ignored_signals() >> (signal - 1) & 1 == 1
}

/// A mask of the signals that the process ignores, the first in the lowest bit; 0 if unknown.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let digits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    digits.map_or(0, |digits| {
        u64::from_str_radix(digits.trim(), 16).unwrap_or(0)
    })
}
