//! A pool of threads that grows while all of them wait, so that no user's requests block another's.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::{self, Thread},
    time::Duration,
};

use crate::turns::Turns;

/// The most threads of a mount: enough for all requests that ordinary users may have running in both
/// lanes, and 64 more for root. A waiting thread takes some 20 KiB of memory and up to four descriptors.
const MAX_THREADS: usize = 256;

/// How long all threads may be busy without completing a request before more are added: longer than a
/// request that waits for nothing, and too short for a person to notice.
const PATIENCE: Duration = Duration::from_millis(5);

/// The shared state of the threads of a mount, which keeps one of them free.
///
/// Some threads are permanent. When all are busy and none completes a request for a while, their number
/// is doubled. Added threads leave as soon as there are enough idle ones without them.
pub(crate) struct Pool {
    pub(crate) turns: Turns,
    /// The number of permanent threads.
    staying: usize,
    /// The number of added threads that still run.
    added: AtomicUsize,
    /// The number of threads that wait for a request.
    idle: AtomicUsize,
    /// The number of completed requests.
    done: AtomicUsize,
    /// Whether the keeper is to check for progress, because all threads were busy.
    is_watched: AtomicBool,
    has_ended: AtomicBool,
    keeper: OnceLock<Thread>,
}

impl Pool {
    /// A pool of `staying` permanent threads, all of them idle.
    pub(crate) fn new(staying: usize) -> Arc<Self> {
        Arc::new(Self {
            turns: Turns::new(),
            staying,
            added: AtomicUsize::new(0),
            idle: AtomicUsize::new(staying),
            done: AtomicUsize::new(0),
            is_watched: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            keeper: OnceLock::new(),
        })
    }

    /// A thread has received a request.
    pub(crate) fn busy(&self) {
        if self.idle.fetch_sub(1, SeqCst) == 1 && !self.is_watched.swap(true, SeqCst) {
            self.wake_keeper();
        }
    }

    /// A thread has completed a request, and continues with a queued one.
    pub(crate) fn done(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    /// A thread has completed a request, and waits for the next one.
    pub(crate) fn idle(&self) {
        self.done();
        self.idle.fetch_add(1, SeqCst);
    }

    /// Whether an added thread may end, because there are enough idle threads without it.
    pub(crate) fn may_leave(&self) -> bool {
        let is_enough = self.idle.load(SeqCst) > self.staying;
        if is_enough {
            self.busy();
        }
        is_enough
    }

    /// The mount has ended.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, SeqCst);
        self.wake_keeper();
    }

    fn wake_keeper(&self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.unpark();
        }
    }

    /// Adds threads that do `work` when they are needed. Runs on a thread of its own, and returns when
    /// the mount and all added threads have ended.
    pub(crate) fn keep(&self, work: impl Fn() + Sync) {
        let _ = self.keeper.set(thread::current());
        let work = || {
            work();
            self.added.fetch_sub(1, SeqCst);
        };
        thread::scope(|scope| {
            let start = || {
                let name = "fuse".to_owned();
                let builder = thread::Builder::new().name(name);
                builder.spawn_scoped(scope, work).map(drop)
            };
            while !self.has_ended.load(SeqCst) {
                if !self.is_watched.load(SeqCst) {
                    thread::park();
                } else if self.is_stuck() {
                    self.add(start);
                }
            }
        });
    }

    /// Waits a while; returns whether all threads were busy and none completed a request. If one is
    /// idle, the keeper can sleep.
    fn is_stuck(&self) -> bool {
        let done = self.done.load(Relaxed);
        thread::park_timeout(PATIENCE);
        if self.idle.load(SeqCst) == 0 {
            return self.done.load(Relaxed) == done;
        }
        self.is_watched.store(false, SeqCst);
        if self.idle.load(SeqCst) == 0 {
            // The last one became busy before the store, and relied on the keeper's check.
            self.is_watched.store(true, SeqCst);
        }
        false
    }

    /// Doubles the number of threads, up to the maximum.
    fn add(&self, start: impl Fn() -> io::Result<()>) {
        let there = self.staying + self.added.load(SeqCst);
        for _ in there..MAX_THREADS.min(2 * there) {
            // Counted before it starts, as it soon calls `busy`.
            self.added.fetch_add(1, SeqCst);
            self.idle.fetch_add(1, SeqCst);
            if let Err(error) = start() {
                self.added.fetch_sub(1, SeqCst);
                self.idle.fetch_sub(1, SeqCst);
                tracing::warn!(%error, threads = there, "no more threads to answer the kernel");
                break;
            }
        }
    }
}
