//! What is fetched next.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    mem,
    ops::Range,
    sync::Arc,
};

use crate::{
    Error,
    budget::{Budget, PerServer},
    flight::Flight,
    granules::is_part_boundary,
    held::{FileId, Held},
};

/// What is to be fetched, for all open files. Each granule is asked for at most once.
pub(crate) struct Queue<F> {
    held: Held,
    files: HashMap<FileId, Line<F>>,
    /// How many files there were.
    opened: u64,
    /// The files that have runs for which somebody waits, and those with runs that will be needed soon, in turns.
    awaited: VecDeque<FileId>,
    early: VecDeque<FileId>,
    /// Those servers from which runs are being fetched.
    running: HashMap<Arc<str>, PerServer>,
}

/// What is to be fetched of a file.
struct Line<F> {
    file: F,
    server: Arc<str>,
    /// Runs of granules that somebody waits for.
    awaited: VecDeque<Range<u64>>,
    /// Runs of granules that will be needed soon.
    early: VecDeque<Range<u64>>,
}

/// A run to fetch, in one request unless that breaks off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run<F> {
    pub(crate) file: F,
    pub(crate) granules: Range<u64>,
    id: FileId,
    server: Arc<str>,
    is_early: bool,
}

impl<F: Clone> Queue<F> {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            held: Held::new(budget),
            files: HashMap::new(),
            opened: 0,
            awaited: VecDeque::new(),
            early: VecDeque::new(),
            running: HashMap::new(),
        }
    }

    /// What is in memory or on its way there.
    pub(crate) fn held(&mut self) -> &mut Held {
        &mut self.held
    }

    /// Adds a file on a server, some of which is here already, by granule.
    pub(crate) fn open(
        &mut self,
        file: F,
        server: Arc<str>,
        here: impl IntoIterator<Item = (u64, Vec<u8>)>,
    ) -> FileId {
        self.opened += 1;
        let id = FileId(self.opened);
        let line = Line {
            file,
            server,
            awaited: VecDeque::new(),
            early: VecDeque::new(),
        };
        self.files.insert(id, line);
        for (granule, bytes) in here {
            self.held.add_here((id, granule), bytes);
        }
        id
    }

    /// Forgets a file, and ends the wait for all of it that is not here. Returns it, if it was not closed before.
    pub(crate) fn close(&mut self, id: FileId, error: &Error) -> Option<F> {
        self.held.close(id, error);
        let line = self.files.remove(&id);
        self.awaited.retain(|file| *file != id);
        self.early.retain(|file| *file != id);
        if self.files.is_empty() {
            self.held.free_spare();
        }
        self.check();
        Some(line?.file)
    }

    /// The granules of a file, which the caller waits for; `to_end` if it reads the last of them to its end. Those that
    /// are not on their way are queued before everything that nobody waits for. `None` if the file was closed.
    pub(crate) fn claim(
        &mut self,
        id: FileId,
        granules: Range<u64>,
        to_end: bool,
    ) -> Option<Vec<Arc<Flight>>> {
        self.promote(id, &granules)?;
        let mut missing = Runs::default();
        let mut flights = Vec::new();
        let last = granules.end - 1;
        for granule in granules {
            let key = (id, granule);
            let to_end = to_end || granule < last;
            flights.push(self.held.read(key, to_end).unwrap_or_else(|| {
                missing.add(granule);
                self.held.add(key, to_end)
            }));
        }
        self.files.get_mut(&id)?.awaited.extend(missing.0);
        self.take_turns(id);
        Some(flights)
    }

    /// Queues those granules of a file that are not on their way, as far as there is room.
    pub(crate) fn need_soon(&mut self, id: FileId, granules: Range<u64>) {
        if !self.files.contains_key(&id) {
            return;
        }
        let mut missing = Runs::default();
        for granule in granules {
            let key = (id, granule);
            if self.held.has(key) {
                continue;
            }
            if !self.held.add_early(key) {
                break;
            }
            missing.add(granule);
        }
        if let Some(line) = self.files.get_mut(&id) {
            line.early.extend(missing.0);
        }
        self.take_turns(id);
    }

    /// What to fetch now, if anything.
    pub(crate) fn next(&mut self) -> Option<Run<F>> {
        self.next_awaited().or_else(|| self.next_early())
    }

    fn next_awaited(&mut self) -> Option<Run<F>> {
        let most = self.held.budget().of_server.awaited;
        let may_run = |id: &FileId| self.running_beside(*id).awaited < most;
        let id = self.awaited.iter().position(may_run)?;
        let id = self.awaited.remove(id)?;
        let granules = self.files.get_mut(&id)?.awaited.pop_front()?;
        self.begin(id, granules, false)
    }

    fn next_early(&mut self) -> Option<Run<F>> {
        if self
            .running
            .values()
            .map(|of_server| of_server.early)
            .sum::<usize>()
            >= self.held.budget().early
        {
            return None;
        }
        let most = self.held.budget().of_server.early;
        let may_run = |id: &FileId| self.running_beside(*id).early < most;
        let id = self.early.iter().position(may_run)?;
        let id = self.early.remove(id)?;
        let granules = self.files.get_mut(&id)?.early.pop_front()?;
        self.begin(id, granules, true)
    }

    /// What runs from the server of a file.
    fn running_beside(&self, id: FileId) -> PerServer {
        let line = self.files.get(&id);
        let running = line.and_then(|line| self.running.get(&line.server));
        running.copied().unwrap_or_default()
    }

    fn begin(&mut self, id: FileId, granules: Range<u64>, is_early: bool) -> Option<Run<F>> {
        self.take_turns(id);
        let line = self.files.get(&id)?;
        let running = self.running.entry(line.server.clone()).or_default();
        if is_early {
            running.early += 1;
        } else {
            running.awaited += 1;
        }
        Some(Run {
            file: line.file.clone(),
            granules,
            id,
            server: line.server.clone(),
            is_early,
        })
    }

    /// A run is not fetched any longer.
    pub(crate) fn ended(&mut self, run: &Run<F>) {
        let Entry::Occupied(mut running) = self.running.entry(run.server.clone()) else {
            return;
        };
        if run.is_early {
            running.get_mut().early -= 1;
        } else {
            running.get_mut().awaited -= 1;
        }
        if let PerServer {
            awaited: 0,
            early: 0,
        } = running.get()
        {
            running.remove();
        }
    }

    /// A run is not fetched yet.
    pub(crate) fn put_back(&mut self, run: Run<F>) {
        self.ended(&run);
        if let Some(line) = self.files.get_mut(&run.id) {
            let runs = if run.is_early {
                &mut line.early
            } else {
                &mut line.awaited
            };
            runs.push_front(run.granules);
        }
        self.take_turns(run.id);
    }

    /// A granule that was on its way is here.
    pub(crate) fn landed(&mut self, id: FileId, granule: u64, bytes: Vec<u8>) {
        self.held.landed((id, granule), bytes);
        self.check();
    }

    /// An attempt to fetch these granules has failed and may be repeated, or no longer has failed.
    pub(crate) fn set_trouble(&self, id: FileId, granules: Range<u64>, trouble: Option<&Error>) {
        granules.for_each(|granule| self.held.set_trouble((id, granule), trouble));
    }

    /// Forgets granules that could not be fetched, so that the next read tries again.
    pub(crate) fn fail(&mut self, id: FileId, granules: Range<u64>, error: &Error) {
        granules.for_each(|granule| self.held.fail((id, granule), error));
        self.check();
    }

    /// Puts runs that overlap these granules before all that nobody waits for.
    fn promote(&mut self, id: FileId, granules: &Range<u64>) -> Option<()> {
        let line = self.files.get_mut(&id)?;
        let overlaps = |run: &Range<u64>| run.start < granules.end && granules.start < run.end;
        let queued = mem::take(&mut line.early).into_iter();
        let (wanted, rest): (VecDeque<_>, VecDeque<_>) = queued.partition(overlaps);
        line.awaited.extend(wanted);
        line.early = rest;
        Some(())
    }

    /// Gives a file its turns: behind all others, if it has none and needs one.
    fn take_turns(&mut self, id: FileId) {
        let Some(line) = self.files.get(&id) else {
            return;
        };
        for (turns, runs) in [
            (&mut self.awaited, &line.awaited),
            (&mut self.early, &line.early),
        ] {
            if runs.is_empty() {
                turns.retain(|file| *file != id);
            } else if !turns.contains(&id) {
                turns.push_back(id);
            }
        }
        self.check();
    }

    fn check(&self) {
        self.held.check();
        let has_turn = |turns: &VecDeque<FileId>, id| turns.contains(id);
        debug_assert!(
            self.files.iter().all(|(id, line)| {
                has_turn(&self.awaited, id) != line.awaited.is_empty()
                    && has_turn(&self.early, id) != line.early.is_empty()
            }),
            "a file has a turn if and only if it needs one"
        );
        debug_assert!(
            self.files.iter().all(|(id, line)| {
                let mut granules = line.awaited.iter().chain(&line.early).cloned().flatten();
                granules.all(|granule| self.held.is_coming((*id, granule)))
            }),
            "what is queued is neither here nor forgotten"
        );
        let queued = |line: &Line<F>| {
            let runs = line.awaited.iter().chain(&line.early);
            runs.map(|run| run.end - run.start).sum::<u64>()
        };
        debug_assert!(
            self.files.values().map(queued).sum::<u64>() <= self.held.coming() as u64,
            "a granule is queued twice"
        );
    }
}

impl<F> Run<F> {
    pub(crate) fn id(&self) -> FileId {
        self.id
    }
}

/// Runs of granules, each for one request.
#[derive(Default)]
struct Runs(Vec<Range<u64>>);

impl Runs {
    fn add(&mut self, granule: u64) {
        match self.0.last_mut() {
            Some(last) if last.end == granule && !is_part_boundary(granule) => last.end += 1,
            _ => self.0.push(granule..granule + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "one run of granules")]

    use std::time::Duration;

    use super::*;
    use crate::flight::Patience;

    /// A queue with a file.
    struct One {
        queue: Queue<&'static str>,
        file: FileId,
    }

    impl One {
        fn new(budget: Budget) -> Self {
            Self::with(budget, [])
        }

        fn with(budget: Budget, here: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Self {
            let mut queue = Queue::new(budget);
            let file = queue.open("file", "server".into(), here);
            Self { queue, file }
        }

        fn claim(&mut self, granules: Range<u64>, to_end: bool) -> Vec<Arc<Flight>> {
            self.queue.claim(self.file, granules, to_end).unwrap()
        }

        fn need_soon(&mut self, granules: Range<u64>) {
            self.queue.need_soon(self.file, granules);
        }

        fn landed(&mut self, granule: u64, bytes: Vec<u8>) {
            self.queue.landed(self.file, granule, bytes);
        }

        fn fail(&mut self, granules: Range<u64>, error: &Error) {
            self.queue.fail(self.file, granules, error);
        }

        /// What is fetched now, at once.
        fn runs(&mut self) -> Vec<Range<u64>> {
            let ended = |queue: &mut Queue<_>| {
                let run = queue.next()?;
                queue.ended(&run);
                Some(run.granules)
            };
            std::iter::from_fn(|| ended(&mut self.queue)).collect()
        }
    }

    fn queue() -> One {
        One::new(Budget::default())
    }

    const NOW: Patience = Patience::Full(Duration::ZERO);

    #[test]
    fn each_granule_is_asked_for_once() {
        let mut queue = queue();
        queue.need_soon(2..4);
        assert_eq!(queue.claim(0..6, true).len(), 6);
        assert_eq!(queue.claim(1..3, true).len(), 2);
        // What is awaited now was queued early before.
        assert_eq!(queue.runs(), [2..4, 0..2, 4..6]);
    }

    #[test]
    fn a_request_stays_inside_a_part() {
        let mut queue = queue();
        queue.claim(120..260, true);
        assert_eq!(queue.runs(), [120..128, 128..256, 256..260]);
    }

    #[test]
    fn some_connections_are_kept_for_readers() {
        let One { mut queue, file } = One::new(Budget {
            early: 1,
            ..Budget::default()
        });
        queue.need_soon(file, 0..2);
        queue.need_soon(file, 10..12);
        let early = queue.next().unwrap();
        assert_eq!(early.granules, 0..2);
        assert_eq!(queue.next(), None);
        queue.claim(file, 20..21, true);
        assert_eq!(queue.next().unwrap().granules, 20..21);
        queue.ended(&early);
        assert_eq!(queue.next().unwrap().granules, 10..12);
    }

    /// Each file that somebody waits for has its turn, and one that was opened now before what is fetched early of others.
    #[test]
    fn files_take_turns() {
        let mut queue = Queue::new(Budget {
            early: 2,
            ..Budget::default()
        });
        let [old, new] = ["old", "new"].map(|file| queue.open(file, "server".into(), []));
        queue.need_soon(old, 500..501);
        queue.need_soon(old, 600..601);
        queue.claim(old, 0..300, true);
        queue.need_soon(new, 500..501);
        queue.claim(new, 7..8, true);
        let next = || queue.next().map(|run| (run.file, run.granules.start));
        let order: Vec<_> = std::iter::from_fn(next).collect();
        let awaited = [("old", 0), ("new", 7), ("old", 128), ("old", 256)];
        assert_eq!(order[..4], awaited);
        assert_eq!(order[4..], [("old", 500), ("new", 500)]);
    }

    #[test]
    fn a_server_has_its_connections_and_leaves_others_theirs() {
        let mut queue = Queue::new(Budget {
            of_server: PerServer {
                awaited: 1,
                early: 1,
            },
            ..Budget::default()
        });
        let files = [("a", "one"), ("b", "one"), ("c", "two")];
        for (file, server) in files {
            let file = queue.open(file, server.into(), []);
            queue.claim(file, 0..1, true);
            queue.need_soon(file, 5..6);
        }
        let first: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        let started: Vec<_> = first.iter().map(|run| (run.file, run.is_early)).collect();
        let (now, soon) = (false, true);
        assert_eq!(started, [("a", now), ("c", now), ("a", soon), ("c", soon)]);
        queue.ended(&first[0]);
        queue.ended(&first[3]);
        assert_eq!(queue.next().unwrap().file, "b");
        assert_eq!(queue.next(), None);
        queue.ended(&first[2]);
        assert_eq!(queue.next().unwrap().file, "b");
    }

    #[test]
    fn of_what_was_closed_nothing_stays() {
        let One { mut queue, file } = One::with(Budget::default(), [(5, Vec::new())]);
        queue.need_soon(file, 20..30);
        let flights = queue.claim(file, 0..6, true).unwrap();
        let run = queue.next().unwrap();
        queue.close(file, &Error::Closed);
        assert_eq!(flights[0].wait(NOW), Err(Error::Closed));
        assert!(flights[5].wait(NOW).is_ok());
        assert_eq!(queue.next(), None);
        assert!(queue.claim(file, 0..1, true).is_none());
        queue.need_soon(file, 0..1);
        // It still arrives.
        queue.landed(file, 0, Vec::new());
        queue.ended(&run);
        assert!(queue.held.coming() == 0 && queue.held.here() == 0);
        assert!(queue.running.is_empty());
    }

    #[test]
    fn what_cannot_be_fetched_now_is_later() {
        let mut queue = queue();
        queue.claim(0..1, true);
        queue.need_soon(5..6);
        let runs = [(); 2].map(|()| queue.queue.next().unwrap());
        for run in runs {
            queue.queue.put_back(run);
        }
        assert_eq!(queue.runs(), [0..1, 5..6]);
    }

    #[test]
    fn what_was_fetched_early_is_bounded() {
        let mut queue = One::new(Budget {
            unread: 2,
            ..Budget::default()
        });
        queue.need_soon(0..10);
        assert_eq!(queue.runs(), [0..2]);
        queue.claim(0..1, true);
        queue.need_soon(2..10);
        assert_eq!(queue.runs(), [2..3]);
        // What fails is not counted any longer.
        queue.fail(1..3, &Error::Closed);
        queue.need_soon(5..10);
        assert_eq!(queue.runs(), [5..7]);
    }

    #[test]
    fn what_failed_is_tried_again() {
        let mut queue = queue();
        let flight = queue.claim(0..1, true).remove(0);
        queue.runs();
        queue.fail(0..1, &Error::NoRanges);
        assert_eq!(flight.wait(NOW), Err(Error::NoRanges));
        queue.claim(0..1, true);
        assert_eq!(queue.runs(), [0..1]);
    }

    #[test]
    fn what_is_distrusted_is_fetched_again() {
        let mut queue = One::with(Budget::default(), [(0, Vec::new())]);
        queue.need_soon(1..3);
        queue.runs();
        queue.landed(1, Vec::new());
        // What is on its way is newer than what was read.
        assert_eq!(queue.queue.held.distrust(queue.file, 0..4), 2);
        queue.claim(0..3, true);
        assert_eq!(queue.runs(), [0..2]);
    }
}
