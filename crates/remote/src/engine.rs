//! The threads that fetch, each over a connection of its own, for all files of a process.

use std::{
    collections::VecDeque,
    mem,
    ops::Range,
    sync::{Arc, OnceLock},
    thread,
};

use verimount_sync::{Condvar, Mutex, MutexGuard};

use crate::{
    Error,
    budget::Budget,
    fetch::Landing,
    fetcher::Fetcher,
    held::FileId,
    queue::{Piece, Queue, Run as QueuedRun},
};

type Run = QueuedRun<Arc<Fetcher>>;

/// Fetches bytes of files in threads, within a [`Budget`].
pub(crate) struct Engine {
    budget: Budget,
    state: Mutex<State>,
    /// A run was handed to a thread that waits.
    handed: Condvar,
}

struct State {
    queue: Queue<Arc<Fetcher>>,
    /// How many threads there are, how many of them wait for a run, and of how many the last attempt has failed.
    threads: usize,
    idle: usize,
    in_trouble: usize,
    /// Runs for threads that wait.
    handed: VecDeque<Run>,
}

/// The engine after so many forks, and that of forked processes.
struct AfterForks(OnceLock<Box<(u32, Arc<Engine>, AfterForks)>>);

/// A thread that fetches. Dropping it, even in a panic, leaves its place to another one.
struct Worker(Arc<Engine>);

/// A run that a thread is fetching. Dropping it, even in a panic, ends the wait of all its readers.
struct Fetching<'a> {
    engine: &'a Arc<Engine>,
    run: Run,
    /// The first byte that has not arrived.
    next: u64,
    /// Why the rest will not arrive.
    error: Error,
    /// Whether the last attempt has failed.
    is_in_trouble: bool,
}

impl AfterForks {
    const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn after(&self, forks: u32) -> Arc<Engine> {
        let mut link = self;
        loop {
            let first = || Box::new((forks, Engine::new(Budget::of_process()), Self::new()));
            let (of, engine, next) = &**link.0.get_or_init(first);
            if *of == forks {
                return engine.clone();
            }
            link = next;
        }
    }
}

impl Engine {
    pub(crate) fn new(budget: Budget) -> Arc<Self> {
        Arc::new(Self {
            budget,
            state: Mutex::new(State {
                queue: Queue::new(budget),
                threads: 0,
                idle: 0,
                in_trouble: 0,
                handed: VecDeque::new(),
            }),
            handed: Condvar::new(),
        })
    }

    /// The one of this process. That of its parent has threads that a forked process lacks.
    pub(crate) fn of_process() -> Arc<Self> {
        static FIRST: AfterForks = AfterForks::new();
        FIRST.after(verimount_sys::forks())
    }

    /// Keeps this many bytes in memory from now on.
    pub(crate) fn set_memory(&self, bytes: u64) {
        self.state.lock().queue.held().set_memory(bytes);
    }

    /// How many bytes are in memory.
    pub(crate) fn memory(&self) -> u64 {
        self.state.lock().queue.held().bytes()
    }

    /// Adds an open file, of which some granules are there.
    pub(crate) fn open(
        &self,
        file: &Arc<Fetcher>,
        granules: impl IntoIterator<Item = (u64, Vec<u8>)>,
    ) -> FileId {
        let mut state = self.state.lock();
        state
            .queue
            .open(file.clone(), file.client.server(), granules)
    }

    /// The pieces of a file that have these bytes. What is fetched is as much of their granules as is `around` the bytes.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn claim(
        self: &Arc<Self>,
        file: FileId,
        bytes: &Range<u64>,
        around: &Range<u64>,
    ) -> Result<Vec<Piece>, Error> {
        let mut state = self.state.lock();
        let pieces = state.queue.claim(file, bytes, around);
        self.engage(&mut state);
        pieces.ok_or(Error::Closed)
    }

    /// Fetches bytes of a file early, if there is room.
    pub(crate) fn need_soon(self: &Arc<Self>, file: FileId, bytes: &Range<u64>) {
        let mut state = self.state.lock();
        state.queue.need_soon(file, bytes);
        self.engage(&mut state);
    }

    /// Forgets the bytes of granules that were found to be wrong; returns how many those were.
    pub(crate) fn distrust(&self, file: FileId, granules: &Range<u64>) -> u64 {
        self.state.lock().queue.held().distrust(file, granules)
    }

    /// Ends the wait of all readers of a file.
    pub(crate) fn close(&self, file: FileId) {
        // Dropping the last of a session closes its connections, which others need not wait for.
        let closed = self.state.lock().queue.close(file, &Error::Closed);
        drop(closed);
    }

    /// Lets threads fetch what is queued: those that wait, and new ones as far as there are too few.
    fn engage(self: &Arc<Self>, state: &mut State) {
        while state.has_thread(&self.budget)
            && let Some(run) = state.queue.next()
        {
            if state.idle > state.handed.len() {
                state.handed.push_back(run);
                self.handed.notify_one();
                continue;
            }
            let engine = self.clone();
            let thread = thread::Builder::new().name("remote".to_owned());
            let first = Arc::new(Mutex::new(Some(run)));
            let given = first.clone();
            match thread.spawn(move || Worker(engine).work(given.lock().take())) {
                Ok(_) => state.threads += 1,
                Err(error) => {
                    let run = first.lock().take().expect("nobody else has it");
                    if state.threads > 0 {
                        // Fewer connections are enough for everything but speed.
                        return state.queue.put_back(run);
                    }
                    state.queue.ended(&run);
                    let error = Error::NoThreads(error.to_string());
                    state.queue.fail(run.id(), &run.bytes, &error);
                }
            }
        }
    }

    /// Waits for a run; `None` if there is no need for this thread.
    fn next_run(&self) -> Option<Run> {
        let mut state = self.state.lock();
        let mut run = None;
        // Others may have taken its place while it was in trouble.
        if state.threads <= self.budget.connections + state.in_trouble {
            run = state.handed.pop_front().or_else(|| state.queue.next());
            if run.is_none() {
                state = self.wait_for_run(state);
                run = state.handed.pop_front();
            }
        }
        run
    }

    fn wait_for_run<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.idle += 1;
        let is_none = |state: &mut State| state.handed.is_empty();
        let rest = self.budget.rest;
        let mut state = self.handed.wait_timeout_while(state, rest, is_none);
        state.idle -= 1;
        state
    }
}

impl Worker {
    fn work(&self, mut next: Option<Run>) {
        while let Some(run) = next {
            let mut fetching = Fetching {
                engine: &self.0,
                next: run.bytes.start,
                run,
                error: Error::Closed,
                is_in_trouble: false,
            };
            if let Err(error) = fetching.fetch() {
                fetching.error = error;
            }
            drop(fetching);
            next = self.0.next_run();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.threads -= 1;
        // What was queued since it looked, or could not be before a panic.
        self.0.engage(&mut state);
    }
}

impl State {
    /// Whether a thread waits, or one more may be started.
    fn has_thread(&self, budget: &Budget) -> bool {
        let most = budget.connections;
        self.idle > self.handed.len() || self.threads < most + self.in_trouble.min(most)
    }
}

impl Fetching<'_> {
    fn fetch(&mut self) -> Result<(), Error> {
        let file = self.run.file.clone();
        file.fetch(self.run.bytes.clone(), self)
    }

    fn rest(&self) -> Range<u64> {
        self.next..self.run.bytes.end
    }
}

impl Landing for Fetching<'_> {
    fn buffer(&mut self) -> Vec<u8> {
        self.engine.state.lock().queue.held().buffer()
    }

    fn landed(&mut self, bytes: Vec<u8>) {
        debug_assert!(self.run.bytes.contains(&self.next), "it was not asked for");
        let mut state = self.engine.state.lock();
        let start = self.next;
        self.next += bytes.len() as u64;
        state.queue.landed(self.run.id(), start, bytes);
        if mem::take(&mut self.is_in_trouble) {
            state.in_trouble -= 1;
            state.queue.set_trouble(self.run.id(), &self.rest(), None);
        }
    }

    fn failed(&mut self, error: &Error) {
        let mut state = self.engine.state.lock();
        state
            .queue
            .set_trouble(self.run.id(), &self.rest(), Some(error));
        if !mem::replace(&mut self.is_in_trouble, true) {
            state.in_trouble += 1;
            // Another one can fetch meanwhile.
            self.engine.engage(&mut state);
        }
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        let mut state = self.engine.state.lock();
        state.in_trouble -= usize::from(self.is_in_trouble);
        state.queue.fail(self.run.id(), &self.rest(), &self.error);
        // This thread looks for the next run at once.
        state.queue.ended(&self.run);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use verimount_source::{Ask, Fetch};
    use verimount_testkit::{HttpEnd, HttpServer, eventually, noise};

    use super::*;
    use crate::{RemoteFile, Session, client::Target};

    fn open(server: &HttpServer, engine: &Arc<Engine>) -> Arc<RemoteFile> {
        let target = Target::Url(server.url("/file").parse().unwrap());
        RemoteFile::open(&Session::default(), target, engine.clone()).unwrap()
    }

    fn content() -> Vec<u8> {
        noise(1 << 20, 1)
    }

    fn read(file: &RemoteFile, offset: u64) {
        let mut buf = [0; 10];
        file.fetch(&mut buf, offset, Ask::default()).unwrap();
        assert_eq!(buf, content()[offset as usize..][..10]);
    }

    /// Its parent goes on with the one that it has.
    #[test]
    fn a_forked_process_has_an_engine_of_its_own() {
        let engines = AfterForks::new();
        let [parent, child, grandchild] = [0, 1, 2].map(|forks| engines.after(forks));
        for forks in 0..3 {
            let again = engines.after(forks);
            let is_it = [&parent, &child, &grandchild].map(|engine| Arc::ptr_eq(engine, &again));
            assert_eq!(is_it, [0, 1, 2].map(|of| of == forks));
        }
    }

    #[test]
    fn a_failing_server_leaves_the_threads_to_others() {
        const LATER: u32 = 50;
        let engine = Engine::new(Budget {
            connections: 1,
            ..Budget::default()
        });
        let failing = HttpServer::start(content(), |number, _, right| match number {
            0 => right,
            _ => right.only_status(503).with("retry-after", LATER),
        });
        let honest = HttpServer::honest(content());
        let (failing, honest) = (open(&failing, &engine), open(&honest, &engine));
        let now = Ask::within(Some(Duration::from_secs(60)));
        failing.fetch(&mut [0], 500_000, now).unwrap_err();
        read(&honest, 500_000);
        assert_eq!(engine.state.lock().in_trouble, 1);
        drop(failing);
        eventually("it is left alone", || engine.state.lock().in_trouble == 0);
    }

    #[test]
    fn a_thread_that_panics_is_replaced() {
        let engine = Engine::new(Budget {
            connections: 1,
            ..Budget::default()
        });
        let server = HttpServer::honest(content());
        let file = open(&server, &engine);
        engine.state.lock().threads += 1;
        let worker = Worker(engine.clone());
        thread::scope(|scope| {
            let reads = scope.spawn(|| read(&file, 500_000));
            eventually("it waits", || engine.state.lock().queue.held().coming() > 0);
            let panics = scope.spawn(move || {
                let _worker = worker;
                panic!("as a bug would");
            });
            panics.join().unwrap_err();
            reads.join().unwrap();
        });
    }

    #[test]
    fn threads_end_that_nobody_needs() {
        let engine = Engine::new(Budget {
            rest: Duration::ZERO,
            ..Budget::default()
        });
        let server = HttpServer::start(content(), |_, _, right| {
            let len = right.body.len();
            right.cut(len, HttpEnd::Closed)
        });
        let file = open(&server, &engine);
        for offset in [300_000, 700_000] {
            read(&file, offset);
            eventually("there is none", || engine.state.lock().threads == 0);
        }
    }
}
