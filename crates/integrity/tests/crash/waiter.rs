//! A thread that is made to wait for a lock that another one has.

use std::{
    fs,
    path::PathBuf,
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

/// A thread that begins its work when it is told to, and is watched until it sleeps or is done.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What the system says of the thread.
    status: Option<PathBuf>,
    step: Step,
    has_waited: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    /// It is to begin.
    Told,
    AtWork,
    Done,
    /// It is not to begin any more.
    GivenUp,
}

impl Waiter {
    /// Waits until it is told to begin, and does it; none if it is never told.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let thread = fs::read_link("/proc/thread-self").expect("the system has /proc");
        let mut state = self.state();
        state.status = Some(PathBuf::from("/proc").join(thread).join("stat"));
        self.changed.notify_all();
        while !matches!(state.step, Step::Told | Step::GivenUp) {
            state = self.changed.wait(state).unwrap();
        }
        if state.step == Step::GivenUp {
            return None;
        }
        state.step = Step::AtWork;
        drop(state);
        let result = work();
        self.state().step = Step::Done;
        Some(result)
    }

    /// Returns when it can be told to begin.
    pub(crate) fn wait_until_ready(&self) {
        let mut state = self.state();
        while state.status.is_none() {
            state = self.changed.wait(state).unwrap();
        }
    }

    /// Has it begin, if it is ready, and returns when it sleeps or is done.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        let Some(status) = state.status.clone() else {
            return;
        };
        state.step = Step::Told;
        self.changed.notify_all();
        drop(state);
        loop {
            let step = self.state().step;
            // It takes no lock of ours while it is at work, so it sleeps for one that we hold.
            if step == Step::AtWork && is_asleep(&status) && self.state().step == Step::AtWork {
                self.state().has_waited = true;
                return;
            }
            if step == Step::Done {
                return;
            }
            thread::yield_now();
        }
    }

    /// Has it end, if it was not told to begin.
    pub(crate) fn give_up(&self) {
        let mut state = self.state();
        if state.step == Step::Idle {
            state.step = Step::GivenUp;
            self.changed.notify_all();
        }
    }

    /// Whether it was seen to sleep.
    pub(crate) fn has_waited(&self) -> bool {
        self.state().has_waited
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// Whether a thread sleeps, by its `stat`: the letter behind its name, which is in brackets.
fn is_asleep(status: &PathBuf) -> bool {
    let status = fs::read_to_string(status).unwrap_or_default();
    let (_, fields) = status.rsplit_once(") ").unwrap_or_default();
    fields.starts_with('S')
}
