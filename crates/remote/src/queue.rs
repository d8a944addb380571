//! What is fetched next.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    mem,
    ops::Range,
    sync::Arc,
};

use verimount_source::{GRANULE, granules};

use crate::{
    Error,
    budget::{Budget, PerServer},
    flight::Flight,
    granules::PART,
    held::{FileId, Held},
};

/// Some bytes of a file, which may still be on their way.
pub(crate) type Piece = (Range<u64>, Arc<Flight>);

/// What is to be fetched, for all open files. Each byte is asked for at most once.
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
    /// Runs of bytes that somebody waits for.
    awaited: VecDeque<Range<u64>>,
    /// Runs of bytes that will be needed soon.
    early: VecDeque<Range<u64>>,
}

/// A run to fetch, in one request unless that breaks off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run<F> {
    pub(crate) file: F,
    pub(crate) bytes: Range<u64>,
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

    /// Adds a file on a server, some granules of which are here already.
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
            self.held.add_here(id, granule * GRANULE, bytes);
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

    /// The pieces of a file that have these bytes, which the caller waits for. Those that are not on their way are queued before
    /// everything that nobody waits for, with what of their granules is missing `around` the bytes. `None` if the file was
    /// closed.
    pub(crate) fn claim(
        &mut self,
        id: FileId,
        bytes: &Range<u64>,
        around: &Range<u64>,
    ) -> Option<Vec<Piece>> {
        self.promote(id, bytes)?;
        let mut missing = Runs::default();
        let mut pieces = Vec::new();
        for piece in self.held.covering(id, bytes, around) {
            let to_end = piece.end <= bytes.end;
            let flight = self.held.read((id, piece.start), to_end);
            let flight = flight.unwrap_or_else(|| {
                missing.add(&piece);
                self.held.add(id, &piece, to_end)
            });
            pieces.push((piece, flight));
        }
        self.files.get_mut(&id)?.awaited.extend(missing.0);
        self.take_turns(id);
        Some(pieces)
    }

    /// Queues those of these bytes that are not on their way, as far as there is room.
    pub(crate) fn need_soon(&mut self, id: FileId, bytes: &Range<u64>) {
        if !self.files.contains_key(&id) {
            return;
        }
        let mut missing = Runs::default();
        for piece in self.held.covering(id, bytes, bytes) {
            if self.held.has((id, piece.start)) {
                continue;
            }
            if !self.held.add_early(id, &piece) {
                break;
            }
            missing.add(&piece);
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
        let bytes = self.files.get_mut(&id)?.awaited.pop_front()?;
        self.begin(id, bytes, false)
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
        let bytes = self.files.get_mut(&id)?.early.pop_front()?;
        self.begin(id, bytes, true)
    }

    /// What runs from the server of a file.
    fn running_beside(&self, id: FileId) -> PerServer {
        let line = self.files.get(&id);
        let running = line.and_then(|line| self.running.get(&line.server));
        running.copied().unwrap_or_default()
    }

    fn begin(&mut self, id: FileId, bytes: Range<u64>, is_early: bool) -> Option<Run<F>> {
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
            bytes,
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
            runs.push_front(run.bytes);
        }
        self.take_turns(run.id);
    }

    /// A piece that was on its way is here.
    pub(crate) fn landed(&mut self, id: FileId, start: u64, bytes: Vec<u8>) {
        self.held.landed((id, start), bytes);
        self.check();
    }

    /// An attempt to fetch these bytes has failed and may be repeated, or no longer has failed.
    pub(crate) fn set_trouble(&self, id: FileId, bytes: &Range<u64>, trouble: Option<&Error>) {
        self.held.set_trouble(id, bytes, trouble);
    }

    /// Forgets bytes that could not be fetched, so that the next read tries again.
    pub(crate) fn fail(&mut self, id: FileId, bytes: &Range<u64>, error: &Error) {
        self.held.fail(id, bytes, error);
        self.check();
    }

    /// Puts runs that overlap these bytes before all that nobody waits for.
    fn promote(&mut self, id: FileId, bytes: &Range<u64>) -> Option<()> {
        let line = self.files.get_mut(&id)?;
        let overlaps = |run: &Range<u64>| run.start < bytes.end && bytes.start < run.end;
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
                let runs = line.awaited.iter().chain(&line.early);
                let mut pieces = runs.flat_map(|run| self.held.covering(*id, run, run));
                pieces.all(|piece| self.held.is_coming((*id, piece.start)))
            }),
            "what is queued is neither here nor forgotten"
        );
        let queued = |line: &Line<F>| {
            let runs = line.awaited.iter().chain(&line.early);
            runs.map(|run| granules(run).count()).sum::<usize>()
        };
        debug_assert!(
            self.files.values().map(queued).sum::<usize>() <= self.held.coming(),
            "a piece is queued twice"
        );
    }
}

impl<F> Run<F> {
    pub(crate) fn id(&self) -> FileId {
        self.id
    }
}

/// Runs of bytes, each for one request. They arrive in pieces that end with granules.
#[derive(Default)]
struct Runs(Vec<Range<u64>>);

impl Runs {
    fn add(&mut self, piece: &Range<u64>) {
        let goes_on = piece.start.is_multiple_of(GRANULE) && !piece.start.is_multiple_of(PART);
        match self.0.last_mut() {
            Some(last) if last.end == piece.start && goes_on => last.end = piece.end,
            _ => self.0.push(piece.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "one run of granules")]

    use std::time::Duration;

    use super::*;
    use crate::{flight::Patience, granules::bytes_of};

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

        fn claim(&mut self, granules: Range<u64>) -> Vec<Piece> {
            self.queue.claims(self.file, granules)
        }

        fn need_soon(&mut self, granules: Range<u64>) {
            self.queue.needs_soon(self.file, granules);
        }

        /// The granules that are fetched now, at once.
        fn runs(&mut self) -> Vec<Range<u64>> {
            self.queue.runs().iter().map(granules).collect()
        }
    }

    impl Queue<&'static str> {
        fn claims(&mut self, file: FileId, granules: Range<u64>) -> Vec<Piece> {
            let bytes = bytes_of(&granules, u64::MAX);
            self.claim(file, &bytes, &bytes).unwrap()
        }

        fn needs_soon(&mut self, file: FileId, granules: Range<u64>) {
            self.need_soon(file, &bytes_of(&granules, u64::MAX));
        }

        /// The bytes that are fetched now, at once.
        fn runs(&mut self) -> Vec<Range<u64>> {
            let next = || {
                let run = self.next()?;
                self.ended(&run);
                Some(run.bytes)
            };
            std::iter::from_fn(next).collect()
        }
    }

    /// The bytes of a granule.
    fn bytes() -> Vec<u8> {
        vec![0; GRANULE as usize]
    }

    fn queue() -> One {
        One::new(Budget::default())
    }

    const NOW: Patience = Patience::Full(Duration::ZERO);

    #[test]
    fn each_granule_is_asked_for_once() {
        let mut queue = queue();
        queue.need_soon(2..4);
        assert_eq!(queue.claim(0..6).len(), 6);
        assert_eq!(queue.claim(1..3).len(), 2);
        // What is awaited now was queued early before.
        assert_eq!(queue.runs(), [2..4, 0..2, 4..6]);
    }

    #[test]
    fn a_request_stays_inside_a_part() {
        let mut queue = queue();
        queue.claim(120..260);
        assert_eq!(queue.runs(), [120..128, 128..256, 256..260]);
    }

    #[test]
    fn some_connections_are_kept_for_readers() {
        let One { mut queue, file } = One::new(Budget {
            early: 1,
            ..Budget::default()
        });
        queue.needs_soon(file, 0..2);
        queue.needs_soon(file, 10..12);
        let early = queue.next().unwrap();
        assert_eq!(granules(&early.bytes), 0..2);
        assert_eq!(queue.next(), None);
        queue.claims(file, 20..21);
        assert_eq!(granules(&queue.next().unwrap().bytes), 20..21);
        queue.ended(&early);
        assert_eq!(granules(&queue.next().unwrap().bytes), 10..12);
    }

    /// Each file that somebody waits for has its turn, and one that was opened now before what is fetched early of others.
    #[test]
    fn files_take_turns() {
        let mut queue = Queue::new(Budget {
            early: 2,
            ..Budget::default()
        });
        let [old, new] = ["old", "new"].map(|file| queue.open(file, "server".into(), []));
        queue.needs_soon(old, 500..501);
        queue.needs_soon(old, 600..601);
        queue.claims(old, 0..300);
        queue.needs_soon(new, 500..501);
        queue.claims(new, 7..8);
        let next = || {
            queue
                .next()
                .map(|run| (run.file, run.bytes.start / GRANULE))
        };
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
            queue.claims(file, 0..1);
            queue.needs_soon(file, 5..6);
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
        let One { mut queue, file } = One::with(Budget::default(), [(5, bytes())]);
        queue.needs_soon(file, 20..30);
        let flights = queue.claims(file, 0..6);
        let run = queue.next().unwrap();
        queue.close(file, &Error::Closed);
        assert_eq!(flights[0].1.wait(NOW), Err(Error::Closed));
        assert!(flights[5].1.wait(NOW).is_ok());
        assert_eq!(queue.next(), None);
        assert!(queue.claim(file, &(0..1), &(0..1)).is_none());
        queue.needs_soon(file, 0..1);
        // It still arrives.
        queue.landed(file, 0, bytes());
        queue.ended(&run);
        assert!(queue.held.coming() == 0 && queue.held.bytes() == 0);
        assert!(queue.running.is_empty());
    }

    #[test]
    fn what_cannot_be_fetched_now_is_later() {
        let mut queue = queue();
        queue.claim(0..1);
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
        queue.claim(0..1);
        queue.need_soon(2..10);
        assert_eq!(queue.runs(), [2..3]);
        // What fails is not counted any longer.
        let failed = bytes_of(&(1..3), u64::MAX);
        queue.queue.fail(queue.file, &failed, &Error::Closed);
        queue.need_soon(5..10);
        assert_eq!(queue.runs(), [5..7]);
    }

    #[test]
    fn what_failed_is_tried_again() {
        let mut queue = queue();
        let (piece, flight) = queue.claim(0..1).remove(0);
        queue.runs();
        queue.queue.fail(queue.file, &piece, &Error::NoRanges);
        assert_eq!(flight.wait(NOW), Err(Error::NoRanges));
        queue.claim(0..1);
        assert_eq!(queue.runs(), [0..1]);
    }

    #[test]
    fn what_is_distrusted_is_fetched_again() {
        let mut queue = One::with(Budget::default(), [(0, bytes())]);
        queue.need_soon(1..3);
        queue.runs();
        queue.queue.landed(queue.file, GRANULE, bytes());
        // What is on its way is newer than what was read.
        let four = bytes_of(&(0..4), u64::MAX);
        let forgotten = queue.queue.held.distrust(queue.file, &four);
        assert_eq!(forgotten, 2 * GRANULE);
        queue.claim(0..3);
        assert_eq!(queue.runs(), [0..2]);
    }

    #[test]
    fn parts_of_granules_are_asked_for_alone_or_with_what_is_missing() {
        const K: u64 = 1 << 10;
        let One { mut queue, file } = One::new(Budget::default());
        // Up to the end of a granule, and over it.
        queue.need_soon(file, &(8 * K..16 * K));
        queue.need_soon(file, &(100 * K..140 * K));
        assert_eq!(queue.runs(), [8 * K..16 * K, 100 * K..140 * K]);
        // A reader who needs no more waits for these.
        let claimed = queue.claim(file, &(9 * K..10 * K), &(0..GRANULE)).unwrap();
        assert_eq!(claimed.len(), 1);
        assert_eq!(queue.runs(), []);
        queue.claim(file, &(0..GRANULE), &(0..GRANULE)).unwrap();
        assert_eq!(queue.runs(), [0..8 * K, 16 * K..100 * K]);
    }
}
