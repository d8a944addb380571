//! What is known of writes that nobody has flushed.

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use crate::range_lock::RangeGuard;

/// Sectors that are locked and being changed. They count as unflushed when this is dropped.
#[derive(Debug)]
pub(super) struct Change<'a> {
    unflushed: &'a Unflushed,
    _locked: RangeGuard<'a>,
}

impl<'a> Change<'a> {
    pub(super) fn new(unflushed: &'a Unflushed, locked: RangeGuard<'a>) -> Self {
        Self {
            unflushed,
            _locked: locked,
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.unflushed.note_write();
    }
}

/// Whether anything was written that was not flushed, and since when.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// Whether `since` is known; so that most writes need not lock the state.
    is_any: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Instant>,
    /// Somebody waits for a write, and not for a time.
    is_idle: bool,
    has_ended: bool,
}

impl Unflushed {
    /// Notes that something has been written.
    pub(super) fn note_write(&self) {
        if self.is_any.load(SeqCst) {
            return;
        }
        let mut state = self.state();
        self.is_any.store(true, SeqCst);
        state.since.get_or_insert_with(Instant::now);
        if state.is_idle {
            self.changed.notify_one();
        }
    }

    /// Notes that a flush begins. What is being written may be counted as unflushed although it is
    /// flushed, but never the other way round.
    pub(super) fn note_flush(&self) {
        if self.is_any.load(SeqCst) {
            let mut state = self.state();
            self.is_any.store(false, SeqCst);
            state.since = None;
        }
    }

    /// Lets [`Self::wait_until_due`] wait.
    pub(super) fn begin_waiting(&self) {
        self.state().has_ended = false;
    }

    /// Ends all waiting.
    pub(super) fn end_waiting(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// Waits until something has been unflushed for `time`; `false` if the waiting is to end.
    pub(super) fn wait_until_due(&self, time: Duration) -> bool {
        let mut state = self.state();
        while !state.has_ended {
            let left = match state.since {
                Some(since) => time.saturating_sub(since.elapsed()),
                // For ever.
                None => Duration::MAX,
            };
            if left.is_zero() {
                return true;
            }
            state.is_idle = state.since.is_none();
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    // Each change of the state is a single assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
