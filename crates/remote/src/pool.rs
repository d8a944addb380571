//! The threads that fetch, each over a connection of its own.

use std::{
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::{
    Error,
    answer::Version,
    client::Client,
    fetch::{self, Closing},
    flight::Flight,
    granules::bytes_of,
    limits::Limits,
    queue::{Queue, Run},
};

/// Fetches granules of one file in threads. Dropping it ends them.
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    client: Client,
    version: Version,
    limits: Limits,
    state: Mutex<State>,
    /// Something was queued, an early run has ended, or the file was closed.
    queued: Condvar,
    closing: Closing,
}

struct State {
    queue: Queue,
    is_closed: bool,
}

/// A run that a thread is fetching. Dropping it, even in a panic, ends the wait of all its readers.
struct Fetching<'a> {
    shared: &'a Shared,
    run: Run,
    /// The first granule that has not arrived.
    next: u64,
    /// Why the rest will not arrive.
    error: Error,
}

impl Pool {
    /// A pool for an open file, whose first granule is there.
    pub(crate) fn start(
        client: Client,
        version: Version,
        first: Vec<u8>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let mut queue = Queue::new(limits.granules, limits.connections);
        if !first.is_empty() {
            queue.insert(0, first);
        }
        let pool = Self(Arc::new(Shared {
            client,
            version,
            limits,
            state: Mutex::new(State {
                queue,
                is_closed: false,
            }),
            queued: Condvar::new(),
            closing: Closing::default(),
        }));
        for number in 0..limits.connections {
            let shared = pool.0.clone();
            let thread = thread::Builder::new().name(format!("remote-{number}"));
            match thread.spawn(move || shared.work()) {
                // Fewer connections are enough for everything but speed.
                Err(error) if number == 0 => return Err(Error::NoThreads(error.to_string())),
                _ => {}
            }
        }
        Ok(pool)
    }

    pub(crate) fn size(&self) -> u64 {
        self.0.version.size
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The granules, which may still be on their way.
    pub(crate) fn claim(&self, granules: Range<u64>) -> Vec<Arc<Flight>> {
        let flights = self.0.lock().queue.claim(granules);
        self.0.queued.notify_all();
        flights
    }

    /// Fetches granules early, if there is room.
    pub(crate) fn need_soon(&self, granules: Range<u64>) {
        self.0.lock().queue.need_soon(granules);
        self.0.queued.notify_all();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.queued.notify_all();
        self.0.closing.close();
        self.0.client.shutdown();
        // The threads are not joined: one may be looking up a host, which nothing interrupts. They end
        // by themselves, and nobody uses their results.
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can leave the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(run) = self.next_run() {
            let mut fetching = Fetching {
                shared: self,
                next: run.granules.start,
                run,
                error: Error::Closed,
            };
            if let Err(error) = fetching.fetch() {
                fetching.error = error;
            }
        }
    }

    /// Waits for a run; `None` if the file was closed.
    fn next_run(&self) -> Option<Run> {
        let mut state = self.lock();
        while !state.is_closed {
            if let Some(run) = state.queue.next() {
                return Some(run);
            }
            let queued = self.queued.wait(state);
            state = queued.unwrap_or_else(PoisonError::into_inner);
        }
        None
    }
}

impl Fetching<'_> {
    fn fetch(&mut self) -> Result<(), Error> {
        let shared = self.shared;
        let bytes = bytes_of(&self.run.granules, shared.version.size);
        let arrived = |bytes| self.arrived(bytes);
        fetch::granules(
            &shared.client,
            &shared.version,
            &shared.limits,
            &shared.closing,
            bytes,
            arrived,
        )
    }

    fn arrived(&mut self, bytes: Vec<u8>) {
        let flight = self.shared.lock().queue.flight(self.next);
        if let Some(flight) = flight {
            flight.land(Ok(bytes));
        }
        self.next += 1;
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let rest = self.next..self.run.granules.end;
        state.queue.fail(rest, &self.error);
        state.queue.ended(&self.run);
        drop(state);
        self.shared.queued.notify_all();
    }
}
