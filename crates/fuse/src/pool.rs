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
    time::{Duration, Instant},
};

use verimount_sync::Mutex;

use crate::{
    held_requests::HeldRequests,
    turns::{MAX_RUNNING, Turn, Turns, Waiting},
};

/// The most threads of a mount: enough for all requests of ordinary users that are limited, and 64 more for
/// root and for the others. A waiting thread takes some 20 KiB of memory and up to four descriptors.
const MAX_THREADS: usize = MAX_RUNNING + 64;

/// How many more there may be for requests that were held.
const RESERVE: usize = 16;

/// How long requests may wait to be read before threads are added: longer than a
/// request that waits for nothing, and too short for a person to notice.
const PATIENCE: Duration = Duration::from_millis(5);

/// By how much the number of threads is multiplied. Each step takes [`PATIENCE`], and all requests that wait to be
/// read by then may take long.
const GROWTH: usize = 4;

/// How long a thread must have been unneeded before it ends: adding it again takes several times [`PATIENCE`],
/// for which requests of others would wait.
const LINGER: Duration = Duration::from_secs(1);

/// The shared state of the threads of a mount, which keeps one of them free.
///
/// Some threads are permanent. When all are busy, and on average read no request in [`PATIENCE`], their number
/// grows. Answers do not count: a thread that answers one queued request after the other reads none. As
/// many added threads leave as were idle all the time, besides the permanent ones.
pub(crate) struct Pool {
    pub(crate) turns: Turns,
    pub(crate) held: HeldRequests,
    /// The number of permanent threads.
    staying: usize,
    /// The number of added threads that still run.
    added: AtomicUsize,
    /// The number of threads that wait for a request.
    idle: AtomicUsize,
    /// The smallest number of idle threads since the present period began.
    least_idle: AtomicUsize,
    period: Mutex<Instant>,
    /// How many threads may leave because the last period did not need them.
    unneeded: AtomicUsize,
    /// The number of requests that were read.
    received: AtomicUsize,
    /// Whether there may be a queued request that an idle thread could answer.
    has_queued: AtomicBool,
    /// Whether a request was queued because no other thread was idle.
    needs_more: AtomicBool,
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
            held: HeldRequests::default(),
            staying,
            added: AtomicUsize::new(0),
            idle: AtomicUsize::new(staying),
            least_idle: AtomicUsize::new(0),
            period: Mutex::new(Instant::now()),
            unneeded: AtomicUsize::new(0),
            received: AtomicUsize::new(0),
            has_queued: AtomicBool::new(false),
            needs_more: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            keeper: OnceLock::new(),
        })
    }

    /// A thread has received a request.
    pub(crate) fn busy(&self) {
        self.received.fetch_add(1, Relaxed);
        self.not_idle();
    }

    /// A thread no longer waits for requests.
    fn not_idle(&self) {
        let idle = self.idle.fetch_sub(1, SeqCst) - 1;
        self.least_idle.fetch_min(idle, Relaxed);
        if idle == 0 {
            self.watch();
        }
    }

    /// Whether no thread waits for requests.
    pub(crate) fn is_all_busy(&self) -> bool {
        self.idle.load(SeqCst) == 0
    }

    /// A request was queued that another thread could answer now.
    pub(crate) fn needs_more(&self) {
        self.has_queued.store(true, SeqCst);
        self.needs_more.store(true, SeqCst);
        self.watch();
    }

    /// A request that was held goes on, on any thread.
    pub(crate) fn begin_again(&self, waiting: Waiting) {
        self.held.ready(waiting);
    }

    /// Waits for the turn of a request that was held and goes on; `None` at the end of the mount.
    pub(crate) fn await_ready(&self) -> Option<(Turn, Waiting)> {
        loop {
            let begun = self.turns.begin_again(self.held.await_ready()?);
            if begun.is_some() {
                return begun;
            }
        }
    }

    /// The turn of the next request that was held and goes on.
    pub(crate) fn begin_ready(&self) -> Option<(Turn, Waiting)> {
        while let Some(waiting) = self.held.next_ready() {
            let begun = self.turns.begin_again(waiting);
            if begun.is_some() {
                return begun;
            }
        }
        None
    }

    /// Whether an idle thread could answer one more that waits.
    fn can_begin(&self) -> bool {
        self.held.is_any_ready() || self.turns.can_begin_queued()
    }

    /// A queued request for an idle thread, if another one goes on reading. The thread is then busy.
    pub(crate) fn begin_queued(&self) -> Option<(Turn, Waiting)> {
        if !self.has_queued.load(SeqCst) {
            return None;
        }
        self.not_idle();
        let begun = if self.is_all_busy() {
            None
        } else {
            self.begin_ready().or_else(|| self.turns.begin_queued())
        };
        // Before looking whether there are more, so that what is queued meanwhile is not overlooked.
        self.has_queued.store(false, SeqCst);
        if self.can_begin() {
            self.has_queued.store(true, SeqCst);
            if self.idle.load(SeqCst) <= 1 {
                self.needs_more();
            }
        }
        if begun.is_none() {
            self.idle();
        }
        begun
    }

    fn watch(&self) {
        if !self.is_watched.swap(true, SeqCst) {
            self.wake_keeper();
        }
    }

    /// A thread has completed a request and those that were queued behind it, and waits for the next one.
    pub(crate) fn idle(&self) {
        self.idle.fetch_add(1, SeqCst);
    }

    /// Whether an added thread, which is idle, may end.
    pub(crate) fn may_leave(&self) -> bool {
        if self.idle.load(SeqCst) <= self.staying {
            return false;
        }
        self.end_period();
        let one_less = |unneeded: usize| unneeded.checked_sub(1);
        let may_leave = self
            .unneeded
            .fetch_update(Relaxed, Relaxed, one_less)
            .is_ok();
        if may_leave {
            self.not_idle();
        }
        may_leave
    }

    /// Finds out how many threads were not needed in the present period, if it is over.
    fn end_period(&self) {
        // Another thread does it at the moment.
        let Some(mut began) = self.period.try_lock() else {
            return;
        };
        if began.elapsed() >= LINGER {
            *began = Instant::now();
            let least = self.least_idle.swap(self.idle.load(SeqCst), Relaxed);
            self.unneeded
                .store(least.saturating_sub(self.staying), Relaxed);
        }
    }

    /// The mount has ended.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, SeqCst);
        self.held.end();
        self.wake_keeper();
    }

    fn threads(&self) -> usize {
        self.staying + self.added.load(SeqCst)
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

    /// Waits a while; returns whether more threads are needed: a request was queued for lack of one, or all
    /// are busy and have read less than one request each, so that others wait to be read. If a thread is idle,
    /// the keeper can sleep.
    fn is_stuck(&self) -> bool {
        let before = self.received.load(Relaxed);
        thread::park_timeout(PATIENCE);
        if self.needs_more.swap(false, SeqCst) {
            return true;
        }
        if self.is_all_busy() {
            let received = self.received.load(Relaxed).wrapping_sub(before);
            return received < self.threads();
        }
        self.is_watched.store(false, SeqCst);
        if self.is_all_busy() || self.needs_more.load(SeqCst) {
            // That was so before the store, and relied on the keeper's check.
            self.is_watched.store(true, SeqCst);
        }
        false
    }

    /// Adds threads, up to the maximum.
    fn add(&self, start: impl Fn() -> io::Result<()>) {
        let there = self.threads();
        // Idle threads do not notice requests that were held.
        let reserve = if self.held.is_any_ready() { RESERVE } else { 0 };
        for _ in there..(MAX_THREADS + reserve).min(GROWTH * there) {
            // Counted before it starts, as it soon calls `busy`.
            self.added.fetch_add(1, SeqCst);
            debug_assert!(self.threads() <= MAX_THREADS + RESERVE);
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
