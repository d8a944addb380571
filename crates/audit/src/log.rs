use std::{
    io, mem,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use verimount_sync::{Condvar, Mutex};

use crate::{
    Full, Line, Open, Target, clock,
    state::{State, ToTell, Writing, deadline},
    writer,
};

/// How a request with lines goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// At once.
    Ended(Outcome),
    /// It waits: see [`AuditLog::held`].
    Held,
}

/// How a request ended that had lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on: they were written, or are lost and counted.
    Written,
    /// It fails: they could not be written.
    Refused,
}

/// A log of which each line is in its target before the request goes on that it is about.
///
/// A request writes its line itself, as long as nobody else does. What comes meanwhile waits without a thread, and is written
/// together by who wrote before. A thread of the log's own goes on when the target does not take more, and another one, which
/// waits for nothing, fails what has waited for too long.
pub struct AuditLog {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    clock: Option<JoinHandle<()>>,
}

/// What the log's threads share.
pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    /// Something is to be done by the writer.
    pub(crate) to_write: Condvar,
    /// Something waits.
    pub(crate) to_watch: Condvar,
    pub(crate) open: Open,
    pub(crate) options: AuditOptions,
    pub(crate) overdue: Mutex<Option<Overdue>>,
}

/// Fails a request on whose thread a line is being written for too long.
type Overdue = Arc<dyn Fn(u64) + Send + Sync>;

/// How lines are kept.
#[derive(Debug, Clone, Copy)]
pub struct AuditOptions {
    /// What becomes of requests whose lines the target does not take.
    pub full: Full,
    /// How long they wait.
    pub patience: Duration,
    /// Whether requests go on only when their lines are on disk.
    pub is_sync: bool,
}

/// How a log is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditStatus {
    /// The path of its target, as [`printable`](verimount_names::printable) shows it.
    pub target: String,
    /// Requests that wait, or went on, whose lines are not written yet.
    pub waiting: usize,
    /// Why it cannot be written, if it cannot.
    pub failure: Option<String>,
}

impl AuditLog {
    /// A log with this target, which `open` opens again. It starts threads.
    ///
    /// # Errors
    /// The system's, without threads.
    pub fn start(target: Target, open: Open, options: AuditOptions) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(target)),
            to_write: Condvar::new(),
            to_watch: Condvar::new(),
            open,
            options,
            overdue: Mutex::new(None),
        });
        let mut log = Self {
            shared: shared.clone(),
            writer: None,
            clock: None,
        };
        let spawn = |work: fn(&Shared)| {
            let shared = shared.clone();
            let named = thread::Builder::new().name("audit".to_owned());
            named.spawn(move || work(&shared))
        };
        log.writer = Some(spawn(writer::run)?);
        log.clock = Some(spawn(clock::run)?);
        Ok(log)
    }

    /// Has `fail` fail requests that write their lines themselves for too long.
    pub fn on_overdue(&self, fail: impl Fn(u64) + Send + Sync + 'static) {
        *self.shared.overdue.lock() = Some(Arc::new(fail));
    }

    /// Keeps the lines of a request, whose number no other one has. A request that was [held](Kept::Held) comes again with the
    /// same lines, which are not written twice.
    pub fn keep(&self, request: u64, lines: Vec<Line>) -> Kept {
        let mut state = self.shared.state.lock();
        if self.shared.options.full == Full::Drop {
            self.queue(&mut state, lines);
            return Kept::Ended(Outcome::Written);
        }
        if let Some(outcome) = state.take_outcome(request, &lines) {
            return Kept::Ended(outcome);
        }
        let deadline = deadline(self.shared.options.patience);
        let may_wait = self.shared.options.full == Full::Wait || state.writing.is_some();
        let target = if state.is_free() {
            state.target.take()
        } else {
            None
        };
        let Some(target) = target else {
            if may_wait && state.hold(request, lines.clone(), deadline) {
                self.shared.watch(&mut state);
                return Kept::Held;
            }
            lines.iter().for_each(|line| line.tally.refused());
            return Kept::Ended(Outcome::Refused);
        };
        state.writing = Some(Writing {
            request: Some(request),
            deadline,
            is_overdue: false,
        });
        self.shared.watch(&mut state);
        drop(state);
        self.write_here(request, lines, target)
    }

    /// Has lines written later, or counts them as lost, which the next one says.
    fn queue(&self, state: &mut State, mut lines: Vec<Line>) {
        if let Some(first) = lines.first_mut().filter(|_| state.lost > 0) {
            first.after_lost(state.lost);
        }
        let tallies: Vec<_> = lines.iter().map(|line| line.tally.clone()).collect();
        let was_idle = !state.has_queued();
        if state.queue(lines) {
            state.lost = 0;
            if was_idle {
                self.shared.to_write.notify_one();
            }
        } else {
            tallies.iter().for_each(|tally| tally.lost());
            state.lost = state.lost.saturating_add(tallies.len() as u64);
        }
    }

    /// Writes the lines of a request on its own thread, and then what came meanwhile.
    fn write_here(&self, request: u64, lines: Vec<Line>, mut target: Target) -> Kept {
        let texts: Vec<&[u8]> = lines.iter().map(|line| &*line.text).collect();
        let bytes = texts.concat();
        let wrote = target.write(&bytes, self.shared.options.is_sync);
        let mut state = self.shared.state.lock();
        let writing = state.writing.as_ref();
        let is_overdue = writing.is_some_and(|writing| writing.is_overdue);
        let deadline = writing.map_or_else(Instant::now, |writing| writing.deadline);
        let kept = match &wrote {
            Ok(()) => {
                state.recovered();
                lines.iter().for_each(|line| line.tally.decided());
                Kept::Ended(if is_overdue {
                    Outcome::Refused
                } else {
                    Outcome::Written
                })
            }
            Err(failed) => {
                state.failed(failed);
                let waits = self.shared.options.full == Full::Wait && !is_overdue;
                if waits || failed.written > 0 {
                    let request = Some(request).filter(|_| waits);
                    state.go_on_with(request, lines, failed.written, deadline);
                } else {
                    lines.iter().for_each(|line| line.tally.refused());
                }
                if waits {
                    Kept::Held
                } else {
                    Kept::Ended(Outcome::Refused)
                }
            }
        };
        state.is_old |= target.was_moved();
        state.target = Some(target);
        let mut told = ToTell::default();
        if wrote.is_err() && self.shared.options.full == Full::Deny {
            told = state.refuse_all();
        }
        if wrote.is_ok() && state.has_queued() {
            (state, told) = writer::write_batch(&self.shared, state);
        }
        state.writing = None;
        self.shared.settle(&state);
        drop(state);
        told.tell();
        kept
    }

    /// Has `resume` told how the request goes on that [was held](Kept::Held).
    pub fn held(&self, request: u64, resume: impl FnOnce(Outcome) + Send + 'static) {
        let told = self.shared.state.lock().attach(request, Box::new(resume));
        told.tell();
    }

    /// A request that was held was answered, or nobody waits for its answer.
    pub fn forget(&self, request: u64) {
        self.shared.state.lock().forget(request);
    }

    /// Opens the target again soon, as it was moved.
    pub fn reopen(&self) {
        self.shared.state.lock().is_old = true;
        self.shared.to_write.notify_one();
    }

    /// How it is doing.
    pub fn status(&self) -> AuditStatus {
        self.shared.state.lock().status()
    }
}

impl Shared {
    /// Has the clock look from now on.
    fn watch(&self, state: &mut State) {
        if !mem::replace(&mut state.is_watched, true) {
            self.to_watch.notify_one();
        }
    }

    /// Wakes those who have something to do.
    pub(crate) fn settle(&self, state: &State) {
        if state.has_queued() || state.is_gone || state.is_old {
            self.to_write.notify_one();
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.shared.state.lock().has_ended = true;
        self.shared.to_write.notify_all();
        self.shared.to_watch.notify_all();
        // It writes what it can of the rest, for a moment.
        for thread in [self.writer.take(), self.clock.take()]
            .into_iter()
            .flatten()
        {
            let _ = thread.join();
        }
    }
}
