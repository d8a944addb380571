//! A thread that is made to wait for a lock held by another thread.

use std::{
    fs,
    path::PathBuf,
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

/// A thread that starts its work on a signal, and is observed until it sleeps or is done.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The thread's `stat` file in `/proc`.
    status: Option<PathBuf>,
    step: Step,
    has_waited: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    /// It has been told to start.
    Told,
    AtWork,
    Done,
    /// It will not be started.
    GivenUp,
}

impl Waiter {
    /// Waits for the signal, and runs `work`; `None` if there never is one.
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

    /// Returns when the thread is ready for the signal. If it has none when what is returned is dropped, also by a panic, it ends.
    pub(crate) fn wait_until_ready(&self) -> Ready<'_> {
        let mut state = self.state();
        while state.status.is_none() {
            state = self.changed.wait(state).unwrap();
        }
        Ready(self)
    }

    /// Starts the thread, if it is ready, and returns when it sleeps or is done.
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
            // While at work it takes no lock of this type, so if it sleeps, it waits for a lock
            // that this thread holds.
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

    /// Whether the thread was observed sleeping.
    pub(crate) fn has_waited(&self) -> bool {
        self.state().has_waited
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// A thread that is ready for the signal.
pub(crate) struct Ready<'w>(&'w Waiter);

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.step == Step::Idle {
            state.step = Step::GivenUp;
            self.0.changed.notify_all();
        }
    }
}

/// Whether a thread sleeps: the state letter in its `stat` follows its name, which is in
/// parentheses.
fn is_asleep(status: &PathBuf) -> bool {
    let status = fs::read_to_string(status).unwrap_or_default();
    let (_, fields) = status.rsplit_once(") ").unwrap_or_default();
    fields.starts_with('S')
}
