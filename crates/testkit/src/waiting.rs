use std::{
    ops::ControlFlow,
    thread,
    time::{Duration, Instant},
};

use crate::PATIENCE;

/// Waits until a condition holds.
///
/// # Panics
/// If that takes too long.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// For work that asks whether to go on: it always does.
pub fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
