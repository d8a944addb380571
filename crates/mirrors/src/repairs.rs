//! Replacing wrong bytes, by a thread of its own: no reader waits for the disk.

use std::{
    collections::VecDeque,
    sync::Arc,
    thread::{self, JoinHandle},
};

use verimount_sync::{Condvar, Mutex};

use crate::{mirrored::Shared, place::Place};

/// The most bytes that wait to be written. Beyond that, readers wait.
const MAX_QUEUED: usize = 32 << 20;

/// The largest write, in bytes: adjacent ranges are written together.
const MAX_WRITE: usize = 1 << 20;

/// Right bytes for a place that has others.
pub(crate) struct Job {
    pub(crate) part: Arc<Shared>,
    pub(crate) place: usize,
    pub(crate) at: Arc<Place>,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Writes what is to be replaced. Dropping it finishes all that was added.
#[derive(Default)]
pub(crate) struct Repairs {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Bytes of the jobs that are not done.
    bytes: usize,
    done: u64,
    has_ended: bool,
}

impl Repairs {
    /// Replaces bytes soon. The same need not be added twice.
    pub(crate) fn add(&self, job: Job) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let queue = self.queue.clone();
            let named = thread::Builder::new().name("repair".to_owned());
            // Without a thread nothing is repaired, which the next read tries again.
            let Ok(started) = named.spawn(move || queue.work()) else {
                return;
            };
            *thread = Some(started);
        }
        drop(thread);
        self.queue.add(job);
    }

    /// How many ranges were replaced.
    pub(crate) fn done(&self) -> u64 {
        self.queue.state.lock().done
    }

    /// Waits until all is done that was added.
    pub(crate) fn finish(&self) {
        let is_busy = |state: &mut State| state.bytes > 0;
        let state = self.queue.state.lock();
        drop(self.queue.changed.wait_while(state, is_busy));
    }
}

impl Queue {
    fn add(&self, job: Job) {
        let is_full = |state: &mut State| state.bytes >= MAX_QUEUED;
        let state = self.state.lock();
        let mut state = self.changed.wait_while(state, is_full);
        if state.jobs.iter().any(|queued| queued.covers(&job)) {
            return;
        }
        state.bytes += job.bytes.len();
        state.jobs.push_back(job);
        drop(state);
        self.changed.notify_all();
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            // What was added before that was known is not tried one by one: an unmount would wait.
            let is_mended = !job.part.is_read_only(job.place) && job.run();
            let mut state = self.state.lock();
            state.done += u64::from(is_mended);
            state.bytes -= job.bytes.len();
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The next job, with those that continue it; `None` at the end.
    fn next(&self) -> Option<Job> {
        let is_idle = |state: &mut State| state.jobs.is_empty() && !state.has_ended;
        let state = self.state.lock();
        let mut state = self.changed.wait_while(state, is_idle);
        let mut job = state.jobs.pop_front()?;
        while let Some(next) = state.jobs.front()
            && job.is_continued_by(next)
        {
            job.bytes.extend(&next.bytes);
            state.jobs.pop_front();
        }
        Some(job)
    }
}

impl Job {
    /// Replaces the bytes; whether any were.
    fn run(&self) -> bool {
        let mended = self.part.mend(self.place, self.offset, &self.bytes);
        let is_mended = matches!(mended, Ok(true));
        let len = self.bytes.len() as u64;
        self.at
            .was_mended(self.part.what, self.offset, len, &mended);
        is_mended
    }

    fn is_of_the_same_copy(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.part, &other.part) && self.place == other.place
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    fn covers(&self, other: &Self) -> bool {
        self.is_of_the_same_copy(other) && self.offset <= other.offset && other.end() <= self.end()
    }

    fn is_continued_by(&self, next: &Self) -> bool {
        self.is_of_the_same_copy(next)
            && self.end() == next.offset
            && self.bytes.len() + next.bytes.len() <= MAX_WRITE
    }
}

impl Drop for Repairs {
    fn drop(&mut self) {
        self.queue.state.lock().has_ended = true;
        self.queue.changed.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // A panic in it was reported by itself.
            let _ = thread.join();
        }
    }
}
