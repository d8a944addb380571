//! Releases callers that were killed while their requests are in flight, and gives requests up whose mount has
//! ended.
//!
//! The kernel keeps a killed caller until its request is answered, which may take for ever if the
//! storage hangs. So a thread that never waits for the storage looks for killed callers, and answers
//! in place of the thread that waits.
//!
//! The kernel's `INTERRUPT` request is no substitute: it does not tell whether the signal is fatal, comes
//! at most once per request and for some not at all, and could not be read while all threads wait.

use std::{
    io,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
    time::Duration,
};

use rustix::{
    io::Errno,
    time::{ClockId, clock_gettime},
};
use verimount_sync::{Condvar, Mutex};
use verimount_sys::{FuseRingRequest, SpareRing};

use crate::{abi::InHeader, callers::Callers, device::Device, pool::Pool};

/// How often the watch checks. It looks up a request's caller only when it sees the request a second
/// time, so for most requests it never does.
const PERIOD: Duration = Duration::from_millis(200);

/// The least pause between two checks, in multiples of the processor time that the last one took.
const PAUSE: u32 = 9;

/// How many replaced threads may still wait for storage. Beyond that, threads are not replaced, and a
/// killed caller is kept until its request is done.
const MAX_STRANDED: usize = 64;

/// A request that came through io_uring.
pub(crate) type RingRequest = FuseRingRequest<Arc<Device>>;

/// The means to answer a request. Only its owner can answer.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each thread, and a box would be allocated for each request"
)]
pub(crate) enum ReplyChannel {
    Device(Arc<Device>),
    Ring(RingRequest),
}

/// Looks for killed callers, and for the end of the mount.
pub(crate) struct Watch {
    /// `None` if killed callers cannot be found out.
    callers: Option<Callers>,
    /// Shows the end of the mount, which threads that wait for storage do not see.
    device: Arc<Device>,
    /// Where requests are queued, if they are.
    pool: Option<Arc<Pool>>,
    seats: Mutex<Vec<Arc<Seat>>>,
    /// Whether there may be requests that the watch has not seen.
    is_asked: AtomicBool,
    has_ended: Mutex<bool>,
    changed: Condvar,
    /// How many replaced threads still wait for storage.
    stranded: AtomicUsize,
}

/// Holds the means to answer the request on which a thread is working.
#[derive(Default)]
struct Seat(Mutex<Option<Held>>);

struct Held {
    unique: u64,
    pid: u32,
    /// `None` if the caller was killed and has been answered, while the thread still works for it.
    channel: Option<ReplyChannel>,
    /// Whether the watch has seen it.
    is_seen: bool,
    /// Whether its caller may get an error while it is still running.
    can_be_abandoned: bool,
}

/// The state of a seat as the watch sees it.
enum Seen {
    Nothing,
    /// A request, to be checked again.
    UnderWay,
    /// The number of a request whose caller was killed.
    Killed(u64),
}

/// A thread's seat while the thread answers.
pub(crate) struct Watched {
    watch: Arc<Watch>,
    seat: Arc<Seat>,
}

impl Watch {
    /// A watch that also checks the requests queued in `pool`.
    pub(crate) fn new(
        callers: Option<Callers>,
        device: Arc<Device>,
        pool: Option<Arc<Pool>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            callers,
            device,
            pool,
            seats: Mutex::default(),
            is_asked: AtomicBool::new(false),
            has_ended: Mutex::new(false),
            changed: Condvar::new(),
            stranded: AtomicUsize::new(0),
        })
    }

    /// A seat for a thread.
    pub(crate) fn seat(self: &Arc<Self>) -> Watched {
        let seat = Arc::<Seat>::default();
        self.seats.lock().push(seat.clone());
        Watched {
            watch: self.clone(),
            seat,
        }
    }

    /// Stops it, as all threads that answer have ended.
    fn end(&self) {
        *self.has_ended.lock() = true;
        self.changed.notify_one();
    }

    /// Looks for killed callers until no thread has a seat any more. Passes the number of each of their requests
    /// and the means to answer to `succeed`, on a new thread, which then replaces the one that waits. Threads of
    /// a pool are not replaced: the pool adds threads itself. Calls `unmounted` while there are requests
    /// although the mount has ended, and `let_go` with the number of a request that was held.
    pub(crate) fn keep(
        self: &Arc<Self>,
        succeed: impl Fn(u64, ReplyChannel) + Sync,
        unmounted: impl Fn(),
        let_go: impl Fn(u64),
    ) {
        let succeed = &succeed;
        thread::scope(|scope| {
            let mut pause = PERIOD;
            while self.wait(pause) {
                let began = clock_gettime(ClockId::ThreadCPUTime);
                self.is_asked.store(false, Relaxed);
                let is_any = self.look(|seat, unique| {
                    let work = move || {
                        // The thread that waits may leave its own as soon as this one takes over.
                        let _seat = self.seat();
                        if let Some(channel) = self.take_over(&seat, unique) {
                            succeed(unique, channel);
                        }
                    };
                    let builder = thread::Builder::new().name("fuse".to_owned());
                    builder.spawn_scoped(scope, work).map(drop)
                }) | self.look_at_held(&let_go);
                if is_any {
                    self.is_asked.store(true, Relaxed);
                    if self.device.is_over() {
                        unmounted();
                    }
                }
                let used = clock_gettime(ClockId::ThreadCPUTime) - began;
                let used = Duration::try_from(used).unwrap_or_default();
                pause = PERIOD.max(used * PAUSE);
            }
        });
    }

    /// Waits until there are requests, and then for `pause`. False at the end.
    fn wait(&self, pause: Duration) -> bool {
        let is_idle = |ended: &mut bool| !*ended && !self.is_asked.load(Relaxed);
        let ended = self.changed.wait_while(self.has_ended.lock(), is_idle);
        !*self
            .changed
            .wait_timeout_while(ended, pause, |ended| !*ended)
    }

    /// Checks all requests; returns whether there are any. `start` starts a thread that takes one over.
    fn look(&self, start: impl Fn(Arc<Seat>, u64) -> io::Result<()>) -> bool {
        // Threads whose callers are gone end no sooner than what they wait for.
        let mut is_any = self.look_at_turns() || self.stranded.load(SeqCst) > 0;
        let seats = self.seats.lock().clone();
        for seat in seats {
            match seat.look(|pid| self.is_killed(pid)) {
                Seen::Nothing => continue,
                Seen::UnderWay => {}
                Seen::Killed(unique) if self.pool.is_some() => seat.let_go(unique, Errno::INTR),
                Seen::Killed(_) if self.stranded.load(SeqCst) >= MAX_STRANDED => {}
                Seen::Killed(unique) => {
                    if let Err(error) = start(seat, unique) {
                        tracing::warn!(%error, "no thread to let go of a caller that was killed");
                    }
                }
            }
            is_any = true;
        }
        is_any
    }

    fn is_killed(&self, pid: u32) -> bool {
        let callers = self.callers.as_ref();
        callers.is_some_and(|callers| callers.is_killed(pid))
    }

    /// Releases the killed callers of requests that the file system holds; returns whether there are any that are held.
    fn look_at_held(&self, let_go: impl Fn(u64)) -> bool {
        let Some(pool) = &self.pool else {
            return false;
        };
        for waiting in pool.held.take_killed(|pid| self.is_killed(pid)) {
            waiting.device.reply(waiting.unique, Err(Errno::INTR));
            let_go(waiting.unique);
        }
        if pool.held.is_stuck() {
            pool.needs_more();
        }
        pool.held.is_any()
    }

    /// Fails a request on which a thread works.
    pub(crate) fn fail(&self, request: u64, error: Errno) {
        let seats = self.seats.lock().clone();
        seats.iter().for_each(|seat| seat.let_go(request, error));
    }

    fn look_at_turns(&self) -> bool {
        let Some(pool) = &self.pool else {
            return false;
        };
        let killed = pool.turns.take_killed(|pid| self.is_killed(pid));
        for waiting in killed {
            waiting.device.reply(waiting.unique, Err(Errno::INTR));
        }
        pool.turns.is_any_waiting()
    }

    /// Takes a request from the thread that waits. A ring is bound to its thread, so the request is
    /// moved to a new ring of this thread.
    fn take_over(&self, seat: &Seat, unique: u64) -> Option<ReplyChannel> {
        let mut seat = seat.0.lock();
        // It may have been answered meanwhile, and the seat have another one.
        let held = seat.take_if(|held| held.unique == unique)?;
        let channel = match held.channel? {
            ReplyChannel::Device(device) => ReplyChannel::Device(device),
            ReplyChannel::Ring(request) => match SpareRing::new() {
                Ok(ring) => ReplyChannel::Ring(request.continue_on(ring)),
                Err(error) => {
                    tracing::warn!(%error, "no ring to let go of a caller that was killed");
                    let channel = Some(ReplyChannel::Ring(request));
                    *seat = Some(Held { channel, ..held });
                    return None;
                }
            },
        };
        self.stranded.fetch_add(1, SeqCst);
        Some(channel)
    }

    /// Wakes the watch for a request that it may not have seen.
    fn ask(&self) {
        // Load before the swap: threads that only load share the cache line.
        if !self.is_asked.load(Relaxed) && !self.is_asked.swap(true, Relaxed) {
            // With the lock, the watch is not between checking `is_asked` and waiting.
            drop(self.has_ended.lock());
            self.changed.notify_one();
        }
    }
}

impl Seat {
    fn look(&self, is_killed: impl Fn(u32) -> bool) -> Seen {
        let mut seat = self.0.lock();
        let Some(held) = &mut *seat else {
            return Seen::Nothing;
        };
        let is_new = !held.is_seen;
        held.is_seen = true;
        if is_new || held.channel.is_none() || !held.can_be_abandoned || !is_killed(held.pid) {
            return Seen::UnderWay;
        }
        Seen::Killed(held.unique)
    }

    /// Releases the caller of a request that came through a device, with this error.
    fn let_go(&self, unique: u64, error: Errno) {
        let mut seat = self.0.lock();
        let held = seat.as_mut().filter(|held| held.unique == unique);
        if let Some(ReplyChannel::Device(device)) = held.and_then(|held| held.channel.take()) {
            device.reply(unique, Err(error));
        }
    }
}

impl Watched {
    /// Puts the means to answer a request into the seat. They must be taken back to answer it.
    pub(crate) fn hold(&self, header: &InHeader, channel: ReplyChannel, can_be_abandoned: bool) {
        let held = Held {
            unique: header.unique,
            pid: header.pid,
            channel: Some(channel),
            is_seen: false,
            can_be_abandoned,
        };
        let before = self.seat.0.lock().replace(held);
        debug_assert!(
            before.is_none(),
            "a thread answers one request after the other"
        );
        // After the seat's lock, so that this thread sees what the watch did before its last check.
        self.watch.ask();
    }

    /// Takes the means to answer back; `None` if the caller was killed and has been answered.
    pub(crate) fn take(&self) -> Option<ReplyChannel> {
        self.seat.0.lock().take().and_then(|held| held.channel)
    }

    /// Wakes the watch for a queued request.
    pub(crate) fn waits(&self) {
        self.watch.ask();
    }

    /// The calling thread, which was replaced, no longer waits for storage.
    pub(crate) fn is_back(&self) {
        let before = self.watch.stranded.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "it was replaced");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut seats = self.watch.seats.lock();
        seats.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        let is_last = seats.is_empty();
        drop(seats);
        if is_last {
            self.watch.end();
        }
    }
}
