use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::{
        AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};

use verimount_sync::{Condvar, Mutex};

use crate::turns::Waiting;

/// The requests of a mount that are held, by their numbers, and those that are to go on.
#[derive(Default)]
pub(crate) struct HeldRequests {
    held: Mutex<HashMap<u64, Waiting>>,
    ready: Mutex<Ready>,
    /// How many are ready.
    count: AtomicUsize,
    /// How many have gone on, now and at the last look.
    gone_on: AtomicUsize,
    seen: AtomicUsize,
    changed: Condvar,
}

#[derive(Default)]
struct Ready {
    requests: VecDeque<Waiting>,
    has_ended: bool,
}

impl HeldRequests {
    pub(crate) fn hold(&self, waiting: Waiting) {
        self.held.lock().insert(waiting.unique, waiting);
    }

    /// Takes a request, unless it was answered.
    pub(crate) fn take(&self, request: u64) -> Option<Waiting> {
        self.held.lock().remove(&request)
    }

    /// Takes those whose caller, given by its thread id, was killed.
    pub(crate) fn take_killed(&self, is_killed: impl Fn(u32) -> bool) -> Vec<Waiting> {
        // The lock is not held during `is_killed`, which is slow.
        let held = self.held.lock();
        let mut callers: Vec<_> = held.values().map(|held| (held.unique, held.pid)).collect();
        drop(held);
        callers.retain(|(_, pid)| is_killed(*pid));
        let killed = callers.into_iter();
        killed
            .filter_map(|(request, _)| self.take(request))
            .collect()
    }

    /// Whether there are any.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any_ready() || !self.held.lock().is_empty()
    }

    /// A request is to go on.
    pub(crate) fn ready(&self, waiting: Waiting) {
        self.ready.lock().requests.push_back(waiting);
        self.count.fetch_add(1, SeqCst);
        self.changed.notify_one();
    }

    /// Waits for the next request that is to go on; `None` at the end of the mount.
    pub(crate) fn await_ready(&self) -> Option<Waiting> {
        let mut ready = self.ready.lock();
        loop {
            if ready.has_ended {
                return None;
            }
            if let Some(next) = self.next_of(&mut ready) {
                return Some(next);
            }
            ready = self.changed.wait(ready);
        }
    }

    /// The mount has ended.
    pub(crate) fn end(&self) {
        self.ready.lock().has_ended = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_any_ready(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    pub(crate) fn next_ready(&self) -> Option<Waiting> {
        if !self.is_any_ready() {
            return None;
        }
        self.next_of(&mut self.ready.lock())
    }

    fn next_of(&self, ready: &mut Ready) -> Option<Waiting> {
        let next = ready.requests.pop_front()?;
        self.count.fetch_sub(1, SeqCst);
        self.gone_on.fetch_add(1, Relaxed);
        Some(next)
    }

    /// Whether none has gone on since the last look, although some are to: the threads that could wait for something.
    pub(crate) fn is_stuck(&self) -> bool {
        let gone_on = self.gone_on.load(Relaxed);
        self.seen.swap(gone_on, Relaxed) == gone_on && self.is_any_ready()
    }
}
