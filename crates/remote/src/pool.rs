//! The threads that fetch, each over a connection of its own.

use std::{ops::Range, sync::Arc, thread};

use verimount_source::{GRANULE, granules};
use verimount_sync::{Condvar, Mutex};

use crate::{
    Error,
    answer::Version,
    client::Client,
    closing::Closing,
    fetch::{self, Landing},
    flight::Flight,
    granules::{PART, bytes_of},
    limits::Limits,
    queue::{Queue, Run},
};

/// Fetches granules of one file in threads, until it is [closed](Self::close).
pub(crate) struct Pool {
    client: Arc<Client>,
    version: Version,
    state: Mutex<State>,
    /// There is a run for a thread that waits, or the file was closed.
    queued: Condvar,
    closing: Closing,
}

struct State {
    queue: Queue,
    /// How many threads there are, and how many of them wait for a run.
    threads: usize,
    idle: usize,
    is_closed: bool,
}

/// A run that a thread is fetching. Dropping it, even in a panic, ends the wait of all its readers.
struct Fetching<'a> {
    pool: &'a Pool,
    run: Run,
    /// The first granule that has not arrived.
    next: u64,
    /// Why the rest will not arrive.
    error: Error,
    /// Whether the last attempt has failed.
    is_in_trouble: bool,
}

impl Pool {
    /// A pool for an open file, of which some granules are there.
    pub(crate) fn start(
        client: Arc<Client>,
        version: Version,
        granules: impl IntoIterator<Item = (u64, Vec<u8>)>,
    ) -> Result<Arc<Self>, Error> {
        let session = client.session().clone();
        let mut queue = Queue::new(*session.limits());
        for (granule, bytes) in granules {
            queue.insert(granule, bytes);
        }
        let pool = Arc::new(Self {
            client,
            version,
            state: Mutex::new(State {
                queue,
                threads: 0,
                idle: 0,
                is_closed: false,
            }),
            queued: Condvar::new(),
            closing: Closing::default(),
        });
        session.add(&pool)?;
        Ok(pool)
    }

    pub(crate) fn size(&self) -> u64 {
        self.version.size
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.client.session().limits()
    }

    /// The granules with these bytes, which may still be on their way.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::NoThreads`] if nothing can be fetched.
    pub(crate) fn claim(self: &Arc<Self>, bytes: &Range<u64>) -> Result<Vec<Arc<Flight>>, Error> {
        let to_end = bytes.end.is_multiple_of(GRANULE) || bytes.end == self.size();
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        let flights = state.queue.claim(granules(bytes), to_end);
        self.engage(&mut state)?;
        Ok(flights)
    }

    /// Fetches a range in the calling thread, with a request for each [`PART`] of it, and keeps nothing.
    ///
    /// # Errors
    /// Those of fetching.
    pub(crate) fn stream(
        &self,
        range: Range<u64>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut streamed = Streamed {
            take,
            spare: Vec::new(),
        };
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + PART);
            self.fetch(start..end, &mut streamed)?;
            start = end;
        }
        Ok(())
    }

    fn fetch(&self, bytes: Range<u64>, landing: &mut impl Landing) -> Result<(), Error> {
        fetch::granules(&self.client, &self.version, &self.closing, bytes, landing)
    }

    /// Forgets granules that were found to be wrong.
    pub(crate) fn distrust(&self, granules: Range<u64>) {
        let forgotten = self.state.lock().queue.distrust(granules);
        let counters = self.client.session().counters();
        counters.distrusted(forgotten * GRANULE);
    }

    /// Fetches granules early, if there is room.
    pub(crate) fn need_soon(self: &Arc<Self>, granules: Range<u64>) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        state.queue.need_soon(granules);
        // Without threads, the reader who then waits for them is told.
        let _ = self.engage(&mut state);
    }

    /// Ends the wait of all readers, and in time the threads.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.queue.fail_all(&Error::Closed);
        drop(state);
        self.queued.notify_all();
        self.closing.close();
    }

    /// Lets threads fetch what is queued, each over a connection of its own: those that wait, and new ones as far as
    /// there are too few.
    ///
    /// # Errors
    /// [`Error::NoThreads`] if there is none and none can be started.
    fn engage(self: &Arc<Self>, state: &mut State) -> Result<(), Error> {
        let ready = state.queue.ready();
        for _ in 0..ready.min(state.idle) {
            self.queued.notify_one();
        }
        let most = self.client.session().limits().connections;
        let missing = ready.saturating_sub(state.idle);
        for _ in 0..missing.min(most.saturating_sub(state.threads)) {
            let pool = self.clone();
            let thread = thread::Builder::new().name("remote".to_owned());
            match thread.spawn(move || pool.work()) {
                Ok(_) => {
                    state.threads += 1;
                    debug_assert!(state.threads <= most);
                }
                // Fewer connections are enough for everything but speed.
                Err(_) if state.threads > 0 => break,
                Err(error) => {
                    let error = Error::NoThreads(error.to_string());
                    state.queue.fail_all(&error);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn work(&self) {
        while let Some(run) = self.next_run() {
            let mut fetching = Fetching {
                pool: self,
                next: run.granules.start,
                run,
                error: Error::Closed,
                is_in_trouble: false,
            };
            if let Err(error) = fetching.fetch() {
                fetching.error = error;
            }
        }
    }

    /// Waits for a run; `None` if the file was closed.
    fn next_run(&self) -> Option<Run> {
        let mut state = self.state.lock();
        while !state.is_closed {
            if let Some(run) = state.queue.next() {
                return Some(run);
            }
            state.idle += 1;
            debug_assert!(state.idle <= state.threads);
            state = self.queued.wait(state);
            state.idle -= 1;
        }
        None
    }
}

/// Bytes that are handed on as they arrive.
struct Streamed<'a> {
    take: &'a mut dyn FnMut(&[u8]),
    spare: Vec<u8>,
}

impl Landing for Streamed<'_> {
    fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    fn landed(&mut self, bytes: Vec<u8>) {
        (self.take)(&bytes);
        self.spare = bytes;
    }

    fn failed(&mut self, _: &Error) {
        // Whoever streams waits for as long as attempts are made.
    }
}

impl Fetching<'_> {
    fn fetch(&mut self) -> Result<(), Error> {
        let pool = self.pool;
        pool.fetch(bytes_of(&self.run.granules, pool.size()), self)
    }
}

impl Landing for Fetching<'_> {
    fn buffer(&mut self) -> Vec<u8> {
        self.pool.state.lock().queue.buffer()
    }

    fn landed(&mut self, bytes: Vec<u8>) {
        debug_assert!(
            self.run.granules.contains(&self.next),
            "it was not asked for"
        );
        let mut state = self.pool.state.lock();
        state.queue.landed(self.next, bytes);
        self.next += 1;
        if std::mem::take(&mut self.is_in_trouble) {
            state
                .queue
                .set_trouble(self.next..self.run.granules.end, None);
        }
    }

    fn failed(&mut self, error: &Error) {
        self.is_in_trouble = true;
        let rest = self.next..self.run.granules.end;
        let mut state = self.pool.state.lock();
        state.queue.set_trouble(rest, Some(error));
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        let rest = self.next..self.run.granules.end;
        state.queue.fail(rest, &self.error);
        // This thread looks for the next run at once.
        state.queue.ended(&self.run);
    }
}
