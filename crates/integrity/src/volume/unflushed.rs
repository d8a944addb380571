//! Tracking of unflushed writes.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::{Duration, Instant},
};

use verimount_sync::{Condvar, Mutex};

use crate::range_lock::RangeGuard;

/// Locked sectors that are being changed. Dropping this marks the volume as unflushed.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) unflushed: &'a Unflushed,
    pub(super) _locked: RangeGuard<'a>,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.unflushed.note_write();
    }
}

/// Whether there are unflushed writes, and since when.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// Whether `since` is set, so that most writes need not lock the state.
    is_any: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    /// A thread waits for a write, without a timeout.
    is_idle: bool,
    has_ended: bool,
}

impl Unflushed {
    /// Records a write.
    pub(super) fn note_write(&self) {
        if self.is_any.load(SeqCst) {
            return;
        }
        let mut state = self.state.lock();
        self.is_any.store(true, SeqCst);
        state.since.get_or_insert_with(Instant::now);
        if state.is_idle {
            self.changed.notify_one();
        }
    }

    /// Records that a flush begins. A concurrent write may count as unflushed although it is
    /// flushed, but never the reverse.
    pub(super) fn note_flush(&self) {
        if self.is_any.load(SeqCst) {
            let mut state = self.state.lock();
            self.is_any.store(false, SeqCst);
            state.since = None;
        }
    }

    /// Allows [`Self::wait_until_due`] to wait.
    pub(super) fn begin_waiting(&self) {
        self.state.lock().has_ended = false;
    }

    /// Ends all waiting.
    pub(super) fn end_waiting(&self) {
        self.state.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Waits until a write has been unflushed for `time`; `false` after [`Self::end_waiting`].
    pub(super) fn wait_until_due(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        while !state.has_ended {
            debug_assert_eq!(self.is_any.load(SeqCst), state.since.is_some());
            let left = match state.since {
                Some(since) => time.saturating_sub(since.elapsed()),
                // No timeout.
                None => Duration::MAX,
            };
            if left.is_zero() {
                return true;
            }
            state.is_idle = state.since.is_none();
            state = self.changed.wait_timeout(state, left);
        }
        false
    }
}
