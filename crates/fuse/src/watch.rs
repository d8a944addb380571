//! Callers that are killed while their requests are under way.
//!
//! The kernel keeps a caller until its request is answered. Where that may take for ever, as the
//! storage does not answer, a thread that never waits for it looks for callers that were killed, and
//! answers in place of the thread that does.
//!
//! The kernel's `INTERRUPT` is not what tells of them: it does not say whether the signal ends the
//! caller, comes once for each request and not at all for some, and would have to be read by a thread
//! while all of them wait.

use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
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
use verimount_sys::{FuseRingRequest, SpareRing};

use crate::{abi::InHeader, callers::Callers, device::Device, pool::Pool};

/// How often the watch looks. It asks for a request's caller when it sees the request a second time,
/// so for most it never asks.
const PERIOD: Duration = Duration::from_millis(200);

/// How many times as long as it needs a processor to look it pauses at least.
const PAUSE: u32 = 9;

/// How many threads may have been replaced and still wait when one more is. Beyond that, a caller is
/// kept until its request is done.
const MAX_STRANDED: usize = 64;

/// A request that came through io_uring.
pub(crate) type RingRequest = FuseRingRequest<Arc<Device>>;

/// How a request can be answered. Who has this answers it, and nobody else does.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one for each thread, and a box would be made for each request"
)]
pub(crate) enum Way {
    Device(Arc<Device>),
    Ring(RingRequest),
}

/// What looks for callers that were killed.
pub(crate) struct Watch {
    callers: Callers,
    /// Where requests wait for their turn, if they do.
    pool: Option<Arc<Pool>>,
    seats: Mutex<Vec<Arc<Seat>>>,
    /// Whether there may be requests that the watch has not seen.
    is_asked: AtomicBool,
    has_ended: Mutex<bool>,
    changed: Condvar,
    /// How many threads have been replaced and still wait.
    stranded: AtomicUsize,
}

/// Where a thread leaves the request that it is working on.
#[derive(Default)]
struct Seat(Mutex<Option<Held>>);

struct Held {
    unique: u64,
    pid: u32,
    way: Way,
    /// Whether the watch has seen it.
    is_seen: bool,
}

/// What the watch sees in a seat.
enum Seen {
    Nothing,
    /// A request that is to be looked at again.
    UnderWay,
    /// A request, by its number, whose caller was killed.
    Killed(u64),
}

/// A thread's seat, for as long as it answers.
pub(crate) struct Watched {
    watch: Arc<Watch>,
    seat: Arc<Seat>,
}

impl Watch {
    /// One that also looks at requests that wait for their turn in `pool`.
    pub(crate) fn new(callers: Callers, pool: Option<Arc<Pool>>) -> Arc<Self> {
        Arc::new(Self {
            callers,
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
        lock(&self.seats).push(seat.clone());
        Watched {
            watch: self.clone(),
            seat,
        }
    }

    /// All threads that answer have ended.
    pub(crate) fn end(&self) {
        *lock(&self.has_ended) = true;
        self.changed.notify_one();
    }

    /// Looks for callers that were killed, until the end. It gives each of their requests, by its number,
    /// to `succeed`, in a thread that then takes the place of the one that waits. Threads of a pool are
    /// not replaced, as the pool sees to it that there are enough.
    pub(crate) fn keep(&self, succeed: impl Fn(u64, Way) + Sync) {
        let succeed = &succeed;
        thread::scope(|scope| {
            let mut pause = PERIOD;
            while self.wait(pause) {
                let began = clock_gettime(ClockId::ThreadCPUTime);
                self.is_asked.store(false, Relaxed);
                let is_any = self.look(|seat, unique| {
                    let work = move || {
                        if let Some(way) = self.take_over(&seat, unique) {
                            succeed(unique, way);
                        }
                    };
                    let builder = thread::Builder::new().name("fuse".to_owned());
                    builder.spawn_scoped(scope, work).map(drop)
                });
                if is_any {
                    self.is_asked.store(true, Relaxed);
                }
                let used = clock_gettime(ClockId::ThreadCPUTime) - began;
                let used = Duration::try_from(used).unwrap_or_default();
                pause = PERIOD.max(used * PAUSE);
            }
        });
    }

    /// Waits until there are requests, and then for `pause`. False at the end.
    fn wait(&self, pause: Duration) -> bool {
        let ended = lock(&self.has_ended);
        let is_idle = |ended: &mut bool| !*ended && !self.is_asked.load(Relaxed);
        let ended = self.changed.wait_while(ended, is_idle);
        let ended = ended.unwrap_or_else(PoisonError::into_inner);
        let paused = self
            .changed
            .wait_timeout_while(ended, pause, |ended| !*ended);
        let (ended, _) = paused.unwrap_or_else(PoisonError::into_inner);
        !*ended
    }

    /// Looks at all requests; says whether there are any. `start` starts a thread that takes one over.
    fn look(&self, start: impl Fn(Arc<Seat>, u64) -> io::Result<()>) -> bool {
        let mut is_any = self.look_at_turns();
        let seats = lock(&self.seats).clone();
        for seat in seats {
            match seat.look(&self.callers) {
                Seen::Nothing => continue,
                Seen::UnderWay => {}
                Seen::Killed(unique) if self.pool.is_some() => seat.let_go(unique),
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

    fn look_at_turns(&self) -> bool {
        let Some(pool) = &self.pool else {
            return false;
        };
        let killed = pool.turns.take_killed(|pid| self.callers.is_killed(pid));
        for waiting in killed {
            waiting.device.reply(waiting.unique, Err(Errno::INTR));
        }
        pool.turns.is_any_waiting()
    }

    /// Takes a request from the thread that waits for it; a ring is replaced by one of this thread.
    fn take_over(&self, seat: &Seat, unique: u64) -> Option<Way> {
        let mut seat = lock(&seat.0);
        // Meanwhile it may have been answered, and another one be in its place.
        let held = seat.take_if(|held| held.unique == unique)?;
        let way = match held.way {
            Way::Device(device) => Way::Device(device),
            Way::Ring(request) => match SpareRing::new() {
                Ok(ring) => Way::Ring(request.continue_on(ring)),
                Err(error) => {
                    tracing::warn!(%error, "no ring to let go of a caller that was killed");
                    let way = Way::Ring(request);
                    *seat = Some(Held { way, ..held });
                    return None;
                }
            },
        };
        self.stranded.fetch_add(1, SeqCst);
        Some(way)
    }

    /// Has the watch look, as there is a request that it may not have seen.
    fn ask(&self) {
        // Read before it is written, so that the threads do not take it from each other each time.
        if !self.is_asked.load(Relaxed) && !self.is_asked.swap(true, Relaxed) {
            // Then the watch is not between looking at it and waiting.
            drop(lock(&self.has_ended));
            self.changed.notify_one();
        }
    }
}

impl Seat {
    fn look(&self, callers: &Callers) -> Seen {
        let mut seat = lock(&self.0);
        let Some(held) = &mut *seat else {
            return Seen::Nothing;
        };
        let is_new = !held.is_seen;
        held.is_seen = true;
        if is_new || !callers.is_killed(held.pid) {
            return Seen::UnderWay;
        }
        Seen::Killed(held.unique)
    }

    /// Answers a request that came through a device.
    fn let_go(&self, unique: u64) {
        let held = lock(&self.0).take_if(|held| held.unique == unique);
        if let Some(Way::Device(device)) = held.map(|held| held.way) {
            device.reply(unique, Err(Errno::INTR));
        }
    }
}

impl Watched {
    /// Leaves a request in the seat, to be taken back before it is answered.
    pub(crate) fn hold(&self, header: &InHeader, way: Way) {
        let held = Held {
            unique: header.unique,
            pid: header.pid,
            way,
            is_seen: false,
        };
        *lock(&self.seat.0) = Some(held);
        // Behind the seat's lock: what the watch did before it last looked there is seen.
        self.watch.ask();
    }

    /// Takes the request back; `None` if its caller was killed and it was answered.
    pub(crate) fn take(&self) -> Option<Way> {
        lock(&self.seat.0).take().map(|held| held.way)
    }

    /// Has the watch look at requests that wait for their turn.
    pub(crate) fn waits(&self) {
        self.watch.ask();
    }

    /// The calling thread, which was replaced, waits no longer.
    pub(crate) fn is_back(&self) {
        self.watch.stranded.fetch_sub(1, SeqCst);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        lock(&self.watch.seats).retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }
}

/// Nothing that can panic comes between two changes that belong together.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
