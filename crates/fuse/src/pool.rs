//! Threads that answer users who must not hold up one another.

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

/// The most threads of a mount: for all requests that ordinary users may have under way in both
/// lanes, and 64 more, which are root's if need be. One that waits takes some 20 KiB of memory, and up
/// to four descriptors.
const MAX_THREADS: usize = 256;

/// For how long all threads may be busy without one of them answering, before there are more: longer
/// than requests take that wait for nothing, and too short for a person to notice.
const PATIENCE: Duration = Duration::from_millis(5);

/// What the threads of a mount have in common, so that one of them is always free.
///
/// Some always stay. When all are busy and for a while none answers, as many again are added. Those
/// leave as soon as there are enough without them.
pub(crate) struct Pool {
    pub(crate) turns: Turns,
    /// How many always stay.
    staying: usize,
    /// How many were added and are still there.
    added: AtomicUsize,
    /// How many wait for a request.
    idle: AtomicUsize,
    /// How often a thread had done with a request.
    done: AtomicUsize,
    /// Whether all were busy at a time, which the keeper looks at.
    is_watched: AtomicBool,
    has_ended: AtomicBool,
    keeper: OnceLock<Thread>,
}

impl Pool {
    /// `staying` threads are there, and wait for requests.
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

    /// A thread has got a request.
    pub(crate) fn busy(&self) {
        if self.idle.fetch_sub(1, SeqCst) == 1 && !self.is_watched.swap(true, SeqCst) {
            self.wake_keeper();
        }
    }

    /// A thread has done with a request, and goes on with one that had to wait.
    pub(crate) fn done(&self) {
        self.done.fetch_add(1, Relaxed);
    }

    /// A thread has done with a request, and waits for one.
    pub(crate) fn idle(&self) {
        self.done();
        self.idle.fetch_add(1, SeqCst);
    }

    /// Lets a thread leave that was added and waits for a request, if there are enough without it.
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

    /// Adds threads that do `work` when they are needed; in a thread of its own. Returns when the
    /// mount has ended and they have.
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

    /// Whether no thread becomes free for a while. If one is, the keeper has nothing to look at.
    fn is_stuck(&self) -> bool {
        let done = self.done.load(Relaxed);
        thread::park_timeout(PATIENCE);
        if self.idle.load(SeqCst) == 0 {
            return self.done.load(Relaxed) == done;
        }
        self.is_watched.store(false, SeqCst);
        if self.idle.load(SeqCst) == 0 {
            // The last one became busy before that, and relied on the keeper looking.
            self.is_watched.store(true, SeqCst);
        }
        false
    }

    /// Starts as many threads as there are, as far as there may be more.
    fn add(&self, start: impl Fn() -> io::Result<()>) {
        let there = self.staying + self.added.load(SeqCst);
        for _ in there..MAX_THREADS.min(2 * there) {
            // Before it starts, as it soon says that it is busy.
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
