//! Fails what has waited for too long. It waits for no target.

use std::time::{Duration, Instant};

use crate::log::Shared;

/// How often it looks while something waits.
const PERIOD: Duration = Duration::from_millis(250);

pub(crate) fn run(shared: &Shared) {
    let mut state = shared.state.lock();
    while !state.has_ended {
        if !state.is_watched {
            state = shared.to_watch.wait(state);
            continue;
        }
        state = shared.to_watch.wait_timeout(state, PERIOD);
        let now = Instant::now();
        let told = state.expire(now);
        let overdue = state.writing.as_mut().and_then(|writing| {
            let is_due = writing.deadline <= now && !writing.is_overdue;
            writing.is_overdue |= is_due;
            writing.request.filter(|_| is_due)
        });
        state.is_watched = state.writing.is_some() || state.has_queued();
        drop(state);
        told.tell();
        let fail = shared.overdue.lock().clone();
        if let (Some(request), Some(fail)) = (overdue, fail) {
            fail(request);
        }
        state = shared.state.lock();
    }
}
