//! Which granules are here, which are on their way, and what is fetched next.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    mem,
    ops::Range,
    sync::Arc,
    time::Instant,
};

use crate::{
    Error,
    budget::{Budget, PerServer},
    flight::Flight,
    granules::is_part_boundary,
};

/// How often a granule must have been read to be kept for that. Two neighbouring reads may share one.
const OFTEN: u32 = 3;

/// The granules in memory and those that are being fetched. Each is asked for at most once.
pub(crate) struct Queue<F> {
    budget: Budget,
    files: HashMap<FileId, Line<F>>,
    /// How many files there were.
    opened: u64,
    slots: HashMap<Key, Slot>,
    /// How many of them were fetched early, or are, and nobody has read; and of how many files.
    unread: usize,
    sharing: usize,
    /// Counts uses, to evict what was not used for longest.
    uses: u64,
    /// The files that have runs for which somebody waits, and those with runs that will be needed soon, in turns.
    awaited: VecDeque<FileId>,
    early: VecDeque<FileId>,
    /// How many early runs are being fetched.
    early_running: usize,
    /// Those servers from which runs are being fetched.
    running: HashMap<Arc<str>, PerServer>,
    /// How many granules are here.
    here: usize,
    /// Buffers of evicted granules, for the next ones: new memory would have to be cleared first.
    spare: Vec<Vec<u8>>,
}

/// The number of a file that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId(u64);

/// A granule of a file.
type Key = (FileId, u64);

/// What is to be fetched of a file.
struct Line<F> {
    file: F,
    server: Arc<str>,
    /// Runs of granules that somebody waits for.
    awaited: VecDeque<Range<u64>>,
    /// Runs of granules that will be needed soon.
    early: VecDeque<Range<u64>>,
    /// How many of its granules were fetched early, or are, and nobody has read.
    unread: usize,
}

struct Slot {
    flight: Arc<Flight>,
    used: u64,
    /// How often readers have asked for it.
    reads: u32,
    /// Whether a reader has asked for its end, so that one that reads in order is done with it.
    is_done: bool,
    /// Since when it is here.
    landed: Option<Instant>,
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
            budget,
            files: HashMap::new(),
            opened: 0,
            slots: HashMap::new(),
            unread: 0,
            sharing: 0,
            uses: 0,
            awaited: VecDeque::new(),
            early: VecDeque::new(),
            early_running: 0,
            running: HashMap::new(),
            here: 0,
            spare: Vec::new(),
        }
    }

    /// Keeps this many bytes from now on. More make room as others come.
    pub(crate) fn set_memory(&mut self, bytes: u64) {
        self.budget = self.budget.with_memory(bytes);
    }

    /// How many granules are here.
    pub(crate) fn here(&self) -> usize {
        self.here
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
            unread: 0,
        };
        self.files.insert(id, line);
        for (granule, bytes) in here {
            // The beginning and the end of a short file overlap.
            if !self.slots.contains_key(&(id, granule)) && self.make_room() {
                self.add((id, granule), 1);
                self.landed(id, granule, bytes);
            }
        }
        id
    }

    /// Forgets a file, and ends the wait for all of it that is not here. Returns it, if it was not closed before.
    pub(crate) fn close(&mut self, id: FileId, error: &Error) -> Option<F> {
        let of_file = self.slots.keys().filter(|(file, _)| *file == id);
        for key in of_file.copied().collect::<Vec<_>>() {
            let slot = self.remove(key);
            if let Some(slot) = slot.filter(|slot| slot.landed.is_none()) {
                slot.flight.land(Err(error.clone()));
            }
        }
        let line = self.files.remove(&id);
        self.awaited.retain(|file| *file != id);
        self.early.retain(|file| *file != id);
        if self.files.is_empty() {
            self.spare = Vec::new();
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
            let flight = match self.read(key) {
                Some(flight) => flight,
                None => {
                    // Even without room: a reader waits.
                    self.make_room();
                    missing.add(granule);
                    self.add(key, 1)
                }
            };
            if let Some(slot) = self.slots.get_mut(&key) {
                slot.is_done |= granule < last || to_end;
            }
            flights.push(flight);
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
            if self.slots.contains_key(&key) {
                continue;
            }
            if !self.make_room_early(id) {
                break;
            }
            missing.add(granule);
            self.add(key, 0);
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
        let most = self.budget.of_server.awaited;
        let may_run = |id: &FileId| self.running_beside(*id).awaited < most;
        let id = self.awaited.iter().position(may_run)?;
        let id = self.awaited.remove(id)?;
        let granules = self.files.get_mut(&id)?.awaited.pop_front()?;
        self.begin(id, granules, false)
    }

    fn next_early(&mut self) -> Option<Run<F>> {
        if self.early_running == self.budget.early {
            return None;
        }
        let most = self.budget.of_server.early;
        let may_run = |id: &FileId| self.running_beside(*id).early < most;
        let id = self.early.iter().position(may_run)?;
        let id = self.early.remove(id)?;
        let granules = self.files.get_mut(&id)?.early.pop_front()?;
        self.early_running += 1;
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
        self.early_running -= usize::from(run.is_early);
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

    /// A buffer for a granule, with any content and length.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// A granule that was on its way is here.
    pub(crate) fn landed(&mut self, id: FileId, granule: u64, bytes: Vec<u8>) {
        if let Some(slot) = self.slots.get_mut(&(id, granule)) {
            self.here += usize::from(slot.landed.is_none());
            slot.landed = Some(Instant::now());
            slot.flight.land(Ok(bytes));
        }
        self.check();
    }

    /// An attempt to fetch these granules has failed and may be repeated, or no longer has failed.
    pub(crate) fn set_trouble(
        &mut self,
        id: FileId,
        granules: Range<u64>,
        trouble: Option<&Error>,
    ) {
        for slot in granules.filter_map(|granule| self.slots.get(&(id, granule))) {
            slot.flight.set_trouble(trouble.cloned());
        }
    }

    /// Forgets granules that could not be fetched, so that the next read tries again.
    pub(crate) fn fail(&mut self, id: FileId, granules: Range<u64>, error: &Error) {
        for granule in granules {
            if let Some(slot) = self.remove((id, granule)) {
                slot.flight.land(Err(error.clone()));
            }
        }
        self.check();
    }

    /// Forgets those of these granules that are here; returns how many those were.
    pub(crate) fn distrust(&mut self, id: FileId, granules: Range<u64>) -> u64 {
        let mut forgotten = 0;
        for key in granules.map(|granule| (id, granule)) {
            let is_here = |slot: &Slot| slot.landed.is_some();
            if self.slots.get(&key).is_some_and(is_here) {
                self.remove(key);
                forgotten += 1;
            }
        }
        forgotten
    }

    /// A granule that is here or on its way, for a reader.
    fn read(&mut self, key: Key) -> Option<Arc<Flight>> {
        let slot = self.slots.get_mut(&key)?;
        self.uses += 1;
        slot.used = self.uses;
        slot.reads = slot.reads.saturating_add(1);
        let (flight, is_first) = (slot.flight.clone(), slot.reads == 1);
        if is_first {
            self.no_longer_unread(key.0);
        }
        Some(flight)
    }

    fn add(&mut self, key: Key, reads: u32) -> Arc<Flight> {
        self.uses += 1;
        let flight = Arc::<Flight>::default();
        let slot = Slot {
            flight: flight.clone(),
            used: self.uses,
            reads,
            is_done: false,
            landed: None,
        };
        if reads == 0
            && let Some(line) = self.files.get_mut(&key.0)
        {
            self.unread += 1;
            self.sharing += usize::from(line.unread == 0);
            line.unread += 1;
        }
        self.slots.insert(key, slot);
        flight
    }

    fn remove(&mut self, key: Key) -> Option<Slot> {
        let slot = self.slots.remove(&key)?;
        if slot.reads == 0 {
            self.no_longer_unread(key.0);
        }
        self.here -= usize::from(slot.landed.is_some());
        Some(slot)
    }

    fn no_longer_unread(&mut self, id: FileId) {
        if let Some(line) = self.files.get_mut(&id) {
            self.unread -= 1;
            line.unread -= 1;
            self.sharing -= usize::from(line.unread == 0);
        }
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

    /// Evicts until a place is free; whether one is. What is on its way stays.
    ///
    /// What was fetched early and not read yet stays as well, unless it is stale: a slow reader's would
    /// otherwise be evicted by a fast one, and be fetched twice.
    fn make_room(&mut self) -> bool {
        while self.slots.len() >= self.budget.granules {
            if !(self.evict(|slot, _| slot.reads > 0) || self.evict_stale()) {
                return false;
            }
        }
        true
    }

    /// Evicts until a place is free for a granule of a file that is fetched early; whether one is. All files whose readers are
    /// ahead of their reads have the same share.
    fn make_room_early(&mut self, id: FileId) -> bool {
        let unread = self.files.get(&id).map_or(0, |line| line.unread);
        let sharing = self.sharing + usize::from(unread == 0);
        let is_free = unread < self.budget.unread / sharing && self.unread < self.budget.unread;
        (is_free || self.evict_stale()) && self.make_room()
    }

    fn evict_stale(&mut self) -> bool {
        let stale = self.budget.stale;
        self.evict(|slot, landed| slot.reads == 0 && landed.elapsed() >= stale)
    }

    /// Evicts what was not used for longest, of that which is here and may be evicted. What its reader is done
    /// with goes first, unless it is read often: the blocks of a Merkle tree are needed again while much data
    /// passes.
    fn evict(&mut self, may_go: impl Fn(&Slot, Instant) -> bool) -> bool {
        let here = self.slots.iter();
        let here = here.filter(|(_, slot)| slot.landed.is_some_and(|since| may_go(slot, since)));
        let is_over = |slot: &Slot| slot.is_done && slot.reads < OFTEN;
        let first = here.min_by_key(|(_, slot)| (!is_over(slot), slot.used));
        let Some(key) = first.map(|(key, _)| *key) else {
            return false;
        };
        let flight = self.remove(key);
        let flight = flight.and_then(|slot| Arc::into_inner(slot.flight));
        if let Some(bytes) = flight.and_then(Flight::into_bytes)
            && self.here + self.spare.len() < self.budget.granules
        {
            self.spare.push(bytes);
        }
        true
    }

    fn check(&self) {
        let count =
            |is_one: fn(&Slot) -> bool| self.slots.values().filter(|slot| is_one(slot)).count();
        debug_assert_eq!(self.here, count(|slot| slot.landed.is_some()));
        debug_assert_eq!(self.unread, count(|slot| slot.reads == 0));
        let lines = || self.files.values();
        debug_assert_eq!(self.unread, lines().map(|line| line.unread).sum::<usize>());
        debug_assert_eq!(self.sharing, lines().filter(|line| line.unread > 0).count());
        let has_turn = |turns: &VecDeque<FileId>, id| turns.contains(id);
        debug_assert!(
            self.files.iter().all(|(id, line)| {
                has_turn(&self.awaited, id) != line.awaited.is_empty()
                    && has_turn(&self.early, id) != line.early.is_empty()
            }),
            "a file has a turn if and only if it needs one"
        );
        let is_coming = |key| {
            let slot: Option<&Slot> = self.slots.get(&key);
            slot.is_some_and(|slot| slot.landed.is_none())
        };
        debug_assert!(
            self.files.iter().all(|(id, line)| {
                let mut granules = line.awaited.iter().chain(&line.early).cloned().flatten();
                granules.all(|granule| is_coming((*id, granule)))
            }),
            "what is queued is neither here nor forgotten"
        );
        let queued = |line: &Line<F>| {
            let runs = line.awaited.iter().chain(&line.early);
            runs.map(|run| run.end - run.start).sum::<u64>()
        };
        debug_assert!(
            lines().map(queued).sum::<u64>() <= (self.slots.len() - self.here) as u64,
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

    use verimount_source::GRANULE;

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

        fn read(&mut self, granules: Range<u64>) {
            for granule in granules {
                self.claim(granule..granule + 1, true);
                for fetched in self.runs().into_iter().flatten() {
                    self.landed(fetched, Vec::new());
                }
            }
        }

        fn has(&self, granule: u64) -> bool {
            self.queue.slots.contains_key(&(self.file, granule))
        }
    }

    fn queue() -> One {
        One::new(Budget::default())
    }

    /// Room for four granules, any of which may be fetched early.
    fn small(stale: Duration) -> Budget {
        Budget {
            granules: 4,
            unread: 4,
            stale,
            ..Budget::default()
        }
    }

    const NEVER: Duration = Duration::MAX;

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
    fn what_is_fetched_early_is_shared() {
        let mut queue = Queue::new(Budget {
            unread: 8,
            ..Budget::default()
        });
        let [one, other] = ["one", "other"].map(|file| queue.open(file, "server".into(), []));
        let unread = |queue: &Queue<_>, file| queue.files[&file].unread;
        queue.need_soon(one, 0..6);
        queue.need_soon(other, 0..6);
        assert_eq!((unread(&queue, one), unread(&queue, other)), (6, 2));
        queue.claim(one, 0..4, true);
        queue.need_soon(other, 0..6);
        queue.need_soon(one, 6..20);
        assert_eq!((unread(&queue, one), unread(&queue, other)), (4, 4));
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
        assert!(queue.slots.is_empty() && queue.running.is_empty());
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
    fn memory_is_bounded() {
        let mut queue = One::new(small(NEVER));
        queue.read(0..4);
        queue.claim(0..1, true);
        // The least recently used make room; what is on its way stays.
        queue.need_soon(10..12);
        assert!(queue.has(0) && queue.has(3));
        assert!(!queue.has(1) && !queue.has(2));
        queue.need_soon(20..30);
        assert_eq!(queue.queue.slots.len(), 4);
        assert!(queue.has(10) && queue.has(11));
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
    fn what_was_not_read_yet_stays_until_it_is_stale() {
        for (stale, stays) in [(NEVER, true), (Duration::ZERO, false)] {
            let mut queue = One::new(small(stale));
            queue.need_soon(9..13);
            queue.runs();
            for granule in 9..13 {
                queue.landed(granule, Vec::new());
            }
            queue.read(0..8);
            assert_eq!(queue.has(9), stays);
            queue.need_soon(20..21);
            assert_eq!(queue.has(20), !stays);
        }
    }

    #[test]
    fn what_is_needed_again_stays_longer() {
        let mut queue = One::new(small(NEVER));
        // Read often, read in part, and read to its end.
        (0..OFTEN).for_each(|_| queue.read(0..1));
        queue.claim(1..2, false);
        queue.runs();
        queue.landed(1, Vec::new());
        queue.read(2..20);
        assert!(queue.has(0) && queue.has(1) && !queue.has(2));
    }

    #[test]
    fn memory_can_be_limited_later() {
        let mut queue = queue();
        queue.read(0..20);
        queue.queue.set_memory(4 * GRANULE);
        assert_eq!(queue.queue.here(), 20);
        queue.read(20..21);
        assert_eq!(queue.queue.here(), 4);
    }

    #[test]
    fn memory_is_used_again() {
        let mut queue = One::with(small(NEVER), [(0, vec![7; 100])]);
        queue.claim(0..1, true);
        assert!(queue.queue.buffer().is_empty());
        queue.read(1..5);
        assert_eq!(queue.queue.buffer(), [7; 100]);
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
        assert_eq!(queue.queue.distrust(queue.file, 0..4), 2);
        queue.claim(0..3, true);
        assert_eq!(queue.runs(), [0..2]);
    }
}
