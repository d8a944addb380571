//! How long idle processors may take to wake: the kernel's limit, which only root may set, and which
//! not every kernel has.

use std::sync::atomic::Ordering::SeqCst;

use crate::prelude::*;

pub(crate) const LIMIT: &str = "/dev/cpu_dma_latency";

/// Whether the limit can be set here.
pub(crate) fn can_be_set() -> bool {
    File::options().write(true).open(LIMIT).is_ok()
}

/// The effective limit of the system, in microseconds.
fn latency() -> i32 {
    let mut bytes = [0; size_of::<i32>()];
    File::open(LIMIT).unwrap().read_exact(&mut bytes).unwrap();
    i32::from_ne_bytes(bytes)
}

/// Whether any process keeps processors awake.
pub(crate) fn is_none() -> bool {
    latency() == 0
}

/// Whether only our own requests can keep processors awake, so that they can be seen; prints a note that work is skipped
/// if not.
pub(crate) fn is_ours_or_skip() -> bool {
    let is_ours = !is_none();
    if !is_ours {
        skip("another program keeps processors awake");
    }
    is_ours
}

/// Waits until processors are kept awake while `ask` asks for something, and until they may sleep
/// again afterwards.
#[track_caller]
pub(crate) fn is_none_while(mut ask: impl FnMut()) {
    eventually("processors are awake", || {
        // The limit is lifted a millisecond after the last request: `ask` may take longer to end.
        let has_asked = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !is_none() {
                    if has_asked.load(SeqCst) {
                        return false;
                    }
                }
                true
            });
            ask();
            has_asked.store(true, SeqCst);
            watcher.join().unwrap()
        })
    });
    eventually("they may sleep again", || !is_none());
}
