//! Writes what requests do not write themselves: when the target did not take all, and behind those that went on.

use std::time::{Duration, Instant};

use verimount_sync::MutexGuard;

use crate::{
    Full,
    log::Shared,
    state::{State, ToTell, Writing, deadline},
};

/// How long it waits before it tries again what has failed: a socket has room for more than is written in that time.
const PAUSE: Duration = Duration::from_millis(20);

/// How long it goes on at the end.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn run(shared: &Shared) {
    let mut state = shared.state.lock();
    let mut end = None;
    loop {
        if state.has_ended {
            let end = *end.get_or_insert_with(|| deadline(PATIENCE));
            if !state.has_queued() || end <= Instant::now() {
                break;
            }
        }
        let has_work = state.has_queued() || state.is_gone || state.is_old;
        if state.writing.is_some() || !has_work {
            state = shared.to_write.wait(state);
            continue;
        }
        state.writing = Some(Writing {
            request: None,
            deadline: Instant::now(),
            is_overdue: true,
        });
        if state.is_gone || state.is_old {
            state = reopen(shared, state);
        }
        if state.has_queued() && !state.is_gone {
            let told;
            (state, told) = write_batch(shared, state);
            drop(state);
            told.tell();
            state = shared.state.lock();
        }
        state.writing = None;
        if state.is_gone || state.is_stuck {
            state = shared.to_write.wait_timeout(state, PAUSE);
        }
    }
    let (count, told) = state.give_up();
    drop(state);
    told.tell();
    if count > 0 {
        tracing::error!(count, "lines of the audit log were not written");
    }
}

/// Writes queued lines. Who calls it is the one that writes.
pub(crate) fn write_batch<'s>(
    shared: &'s Shared,
    mut state: MutexGuard<'s, State>,
) -> (MutexGuard<'s, State>, ToTell) {
    let Some(mut target) = state.target.take() else {
        return (state, ToTell::default());
    };
    let batch = state.batch();
    drop(state);
    let wrote = target.write(&batch, shared.options.is_sync);
    let was_moved = target.was_moved();
    let mut state = shared.state.lock();
    state.target = Some(target);
    state.is_old |= was_moved;
    let told = match &wrote {
        Ok(()) => {
            state.recovered();
            state.wrote(batch.len())
        }
        Err(failed) => {
            state.failed(failed);
            let told = state.wrote(failed.written);
            if shared.options.full == Full::Deny {
                told.and(state.refuse_all())
            } else {
                told
            }
        }
    };
    (state, told)
}

/// Opens the target again. If that fails, one that was only moved goes on.
fn reopen<'s>(shared: &'s Shared, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
    drop(state);
    let opened = (shared.open)();
    let mut state = shared.state.lock();
    match opened {
        Ok(target) => state.replace(target),
        Err(error) => {
            state.is_old = false;
            state.cannot(&error);
        }
    }
    state
}
