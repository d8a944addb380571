//! Which granules are here, which are on their way, and what is fetched next.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::Arc,
    time::Instant,
};

use crate::{Error, flight::Flight, granules::is_part_boundary, limits::Limits};

/// How often a granule must have been read to be kept for that. Two neighbouring reads may share one.
const OFTEN: u32 = 3;

/// The granules in memory and those that are being fetched. Each is asked for at most once.
pub(crate) struct Queue {
    limits: Limits,
    slots: HashMap<u64, Slot>,
    /// How many of them were fetched early, or are, and nobody has read.
    unread: usize,
    /// Counts uses, to evict what was not used for longest.
    uses: u64,
    /// Runs of granules that somebody waits for.
    awaited: VecDeque<Range<u64>>,
    /// Runs of granules that will be needed soon.
    early: VecDeque<Range<u64>>,
    /// How many of these are being fetched.
    early_running: usize,
    /// How many granules are here.
    here: usize,
    /// Buffers of evicted granules, for the next ones: new memory would have to be cleared first.
    spare: Vec<Vec<u8>>,
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
pub(crate) struct Run {
    pub(crate) granules: Range<u64>,
    is_early: bool,
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            slots: HashMap::new(),
            unread: 0,
            uses: 0,
            awaited: VecDeque::new(),
            early: VecDeque::new(),
            early_running: 0,
            here: 0,
            spare: Vec::new(),
        }
    }

    /// A granule that is here already.
    pub(crate) fn insert(&mut self, granule: u64, bytes: Vec<u8>) {
        // The beginning and the end of a short file overlap.
        if !self.slots.contains_key(&granule) {
            self.add(granule, 1);
            self.landed(granule, bytes);
        }
    }

    /// The granules, which the caller waits for; `to_end` if it reads the last of them to its end. Those that
    /// are not on their way are queued before everything that nobody waits for.
    pub(crate) fn claim(&mut self, granules: Range<u64>, to_end: bool) -> Vec<Arc<Flight>> {
        self.promote(&granules);
        let mut missing = Runs::default();
        let mut flights = Vec::new();
        let last = granules.end - 1;
        for granule in granules {
            let flight = match self.read(granule) {
                Some(flight) => flight,
                None => {
                    // Even without room: a reader waits.
                    self.make_room();
                    missing.add(granule);
                    self.add(granule, 1)
                }
            };
            if let Some(slot) = self.slots.get_mut(&granule) {
                slot.is_done |= granule < last || to_end;
            }
            flights.push(flight);
        }
        self.awaited.extend(missing.0);
        self.check();
        flights
    }

    /// Queues those granules that are not on their way, as far as there is room.
    pub(crate) fn need_soon(&mut self, granules: Range<u64>) {
        let mut missing = Runs::default();
        for granule in granules {
            if self.slots.contains_key(&granule) {
                continue;
            }
            if !self.make_room_early() {
                break;
            }
            missing.add(granule);
            self.add(granule, 0);
        }
        self.early.extend(missing.0);
        self.check();
    }

    /// What to fetch now, if anything.
    pub(crate) fn next(&mut self) -> Option<Run> {
        if let Some(granules) = self.awaited.pop_front() {
            return Some(Run {
                granules,
                is_early: false,
            });
        }
        if self.early_running == self.limits.early {
            return None;
        }
        let granules = self.early.pop_front()?;
        self.early_running += 1;
        Some(Run {
            granules,
            is_early: true,
        })
    }

    /// How many runs can be fetched now, each over a connection of its own.
    pub(crate) fn ready(&self) -> usize {
        let early = self.limits.early - self.early_running;
        self.awaited.len() + self.early.len().min(early)
    }

    /// A run is not fetched any longer.
    pub(crate) fn ended(&mut self, run: &Run) {
        if run.is_early {
            self.early_running -= 1;
        }
    }

    /// A buffer for a granule, with any content and length.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// A granule that was on its way is here.
    pub(crate) fn landed(&mut self, granule: u64, bytes: Vec<u8>) {
        if let Some(slot) = self.slots.get_mut(&granule) {
            self.here += usize::from(slot.landed.is_none());
            slot.landed = Some(Instant::now());
            slot.flight.land(Ok(bytes));
        }
        self.check();
    }

    /// An attempt to fetch these granules has failed and may be repeated, or no longer has failed.
    pub(crate) fn set_trouble(&mut self, granules: Range<u64>, trouble: Option<&Error>) {
        for slot in granules.filter_map(|granule| self.slots.get(&granule)) {
            slot.flight.set_trouble(trouble.cloned());
        }
    }

    /// Forgets granules that could not be fetched, so that the next read tries again.
    pub(crate) fn fail(&mut self, granules: Range<u64>, error: &Error) {
        for granule in granules {
            if let Some(flight) = self.remove(granule) {
                flight.land(Err(error.clone()));
            }
        }
        self.check();
    }

    /// Forgets those of these granules that are here; returns how many those were.
    pub(crate) fn distrust(&mut self, granules: Range<u64>) -> u64 {
        let mut forgotten = 0;
        for granule in granules {
            let is_here = |slot: &Slot| slot.landed.is_some();
            if self.slots.get(&granule).is_some_and(is_here) {
                self.remove(granule);
                forgotten += 1;
            }
        }
        forgotten
    }

    /// Ends the wait for everything that is not here.
    pub(crate) fn fail_all(&mut self, error: &Error) {
        self.awaited.clear();
        self.early.clear();
        let missing = self.slots.iter().filter(|(_, slot)| slot.landed.is_none());
        let missing: Vec<u64> = missing.map(|(granule, _)| *granule).collect();
        for granule in missing {
            self.fail(granule..granule + 1, error);
        }
    }

    /// A granule that is here or on its way, for a reader.
    fn read(&mut self, granule: u64) -> Option<Arc<Flight>> {
        let slot = self.slots.get_mut(&granule)?;
        self.uses += 1;
        slot.used = self.uses;
        self.unread -= usize::from(slot.reads == 0);
        slot.reads = slot.reads.saturating_add(1);
        Some(slot.flight.clone())
    }

    fn add(&mut self, granule: u64, reads: u32) -> Arc<Flight> {
        self.uses += 1;
        let flight = Arc::<Flight>::default();
        let slot = Slot {
            flight: flight.clone(),
            used: self.uses,
            reads,
            is_done: false,
            landed: None,
        };
        self.unread += usize::from(reads == 0);
        self.slots.insert(granule, slot);
        flight
    }

    fn remove(&mut self, granule: u64) -> Option<Arc<Flight>> {
        let slot = self.slots.remove(&granule)?;
        self.unread -= usize::from(slot.reads == 0);
        self.here -= usize::from(slot.landed.is_some());
        Some(slot.flight)
    }

    /// Puts runs that overlap these granules before all that nobody waits for.
    fn promote(&mut self, granules: &Range<u64>) {
        let overlaps = |run: &Range<u64>| run.start < granules.end && granules.start < run.end;
        let queued = std::mem::take(&mut self.early).into_iter();
        let (wanted, rest): (VecDeque<_>, VecDeque<_>) = queued.partition(overlaps);
        self.awaited.extend(wanted);
        self.early = rest;
    }

    /// Evicts until a place is free; whether one is. What is on its way stays.
    ///
    /// What was fetched early and not read yet stays as well, unless it is stale: a slow reader's would
    /// otherwise be evicted by a fast one, and be fetched twice.
    fn make_room(&mut self) -> bool {
        while self.slots.len() >= self.limits.granules {
            if !(self.evict(|slot, _| slot.reads > 0) || self.evict_stale()) {
                return false;
            }
        }
        true
    }

    /// Evicts until a place is free for a granule that is fetched early; whether one is.
    fn make_room_early(&mut self) -> bool {
        (self.unread < self.limits.unread || self.evict_stale()) && self.make_room()
    }

    fn evict_stale(&mut self) -> bool {
        let stale = self.limits.stale;
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
        let Some(granule) = first.map(|(granule, _)| *granule) else {
            return false;
        };
        let flight = self.remove(granule).and_then(Arc::into_inner);
        if let Some(bytes) = flight.and_then(Flight::into_bytes)
            && self.here + self.spare.len() < self.limits.granules
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
        let runs = || self.awaited.iter().chain(&self.early);
        let is_coming = |granule: u64| {
            let slot = self.slots.get(&granule);
            slot.is_some_and(|slot| slot.landed.is_none())
        };
        debug_assert!(runs().all(|run| !run.is_empty()));
        debug_assert!(
            runs().cloned().flatten().all(is_coming),
            "what is queued is neither here nor forgotten"
        );
        debug_assert!(
            runs().map(|run| run.end - run.start).sum::<u64>()
                <= (self.slots.len() - self.here) as u64,
            "a granule is queued twice"
        );
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

    fn queue() -> Queue {
        Queue::new(Limits::default())
    }

    /// A queue of four granules, any of which may be fetched early.
    fn small(stale: Duration) -> Queue {
        Queue::new(Limits {
            granules: 4,
            unread: 4,
            stale,
            ..Limits::default()
        })
    }

    const NEVER: Duration = Duration::MAX;

    const NOW: Patience = Patience::Full(Duration::ZERO);

    fn runs(queue: &mut Queue) -> Vec<Range<u64>> {
        std::iter::from_fn(|| queue.next())
            .map(|run| run.granules)
            .collect()
    }

    fn read(queue: &mut Queue, granules: Range<u64>) {
        for granule in granules {
            queue.claim(granule..granule + 1, true);
            for fetched in runs(queue).into_iter().flatten() {
                queue.landed(fetched, Vec::new());
            }
        }
    }

    fn has(queue: &Queue, granule: u64) -> bool {
        queue.slots.contains_key(&granule)
    }

    #[test]
    fn each_granule_is_asked_for_once() {
        let mut queue = queue();
        queue.need_soon(2..4);
        assert_eq!(queue.claim(0..6, true).len(), 6);
        assert_eq!(queue.claim(1..3, true).len(), 2);
        // What is awaited now was queued early before.
        assert_eq!(runs(&mut queue), [2..4, 0..2, 4..6]);
    }

    #[test]
    fn a_request_stays_inside_a_part() {
        let mut queue = queue();
        queue.claim(120..260, true);
        assert_eq!(runs(&mut queue), [120..128, 128..256, 256..260]);
    }

    #[test]
    fn some_connections_are_kept_for_readers() {
        let mut queue = Queue::new(Limits {
            early: 1,
            ..Limits::default()
        });
        queue.need_soon(0..2);
        queue.need_soon(10..12);
        assert_eq!(queue.ready(), 1);
        let early = queue.next().unwrap();
        assert_eq!(early.granules, 0..2);
        assert_eq!(queue.next(), None);
        queue.claim(20..21, true);
        assert_eq!(queue.ready(), 1);
        assert_eq!(queue.next().unwrap().granules, 20..21);
        queue.ended(&early);
        assert_eq!(queue.next().unwrap().granules, 10..12);
    }

    #[test]
    fn memory_is_bounded() {
        let mut queue = small(NEVER);
        read(&mut queue, 0..4);
        queue.claim(0..1, true);
        // The least recently used make room; what is on its way stays.
        queue.need_soon(10..12);
        assert!(has(&queue, 0) && has(&queue, 3));
        assert!(!has(&queue, 1) && !has(&queue, 2));
        queue.need_soon(20..30);
        assert_eq!(queue.slots.len(), 4);
        assert!(has(&queue, 10) && has(&queue, 11));
    }

    #[test]
    fn what_was_fetched_early_is_bounded() {
        let mut queue = Queue::new(Limits {
            unread: 2,
            ..Limits::default()
        });
        queue.need_soon(0..10);
        assert_eq!(runs(&mut queue), [0..2]);
        queue.claim(0..1, true);
        queue.need_soon(2..10);
        assert_eq!(runs(&mut queue), [2..3]);
        // What fails is not counted any longer.
        queue.fail(1..3, &Error::Closed);
        queue.need_soon(5..10);
        assert_eq!(runs(&mut queue), [5..7]);
    }

    #[test]
    fn what_was_not_read_yet_stays_until_it_is_stale() {
        for (stale, stays) in [(NEVER, true), (Duration::ZERO, false)] {
            let mut queue = small(stale);
            queue.need_soon(9..13);
            runs(&mut queue);
            for granule in 9..13 {
                queue.landed(granule, Vec::new());
            }
            read(&mut queue, 0..8);
            assert_eq!(has(&queue, 9), stays);
            queue.need_soon(20..21);
            assert_eq!(has(&queue, 20), !stays);
        }
    }

    #[test]
    fn what_is_needed_again_stays_longer() {
        let mut queue = small(NEVER);
        // Read often, read in part, and read to its end.
        (0..OFTEN).for_each(|_| read(&mut queue, 0..1));
        queue.claim(1..2, false);
        runs(&mut queue);
        queue.landed(1, Vec::new());
        read(&mut queue, 2..20);
        assert!(has(&queue, 0) && has(&queue, 1) && !has(&queue, 2));
    }

    #[test]
    fn memory_is_used_again() {
        let mut queue = small(NEVER);
        queue.insert(0, vec![7; 100]);
        queue.claim(0..1, true);
        assert!(queue.buffer().is_empty());
        read(&mut queue, 1..5);
        assert_eq!(queue.buffer(), [7; 100]);
    }

    #[test]
    fn what_failed_is_tried_again() {
        let mut queue = queue();
        let flight = queue.claim(0..1, true).remove(0);
        queue.next();
        queue.fail(0..1, &Error::NoRanges);
        assert_eq!(flight.wait(NOW), Err(Error::NoRanges));
        queue.claim(0..1, true);
        assert_eq!(queue.next().unwrap().granules, 0..1);
    }

    #[test]
    fn what_is_distrusted_is_fetched_again() {
        let mut queue = queue();
        queue.insert(0, Vec::new());
        queue.need_soon(1..3);
        runs(&mut queue);
        queue.landed(1, Vec::new());
        // What is on its way is newer than what was read.
        assert_eq!(queue.distrust(0..4), 2);
        queue.claim(0..3, true);
        assert_eq!(runs(&mut queue), [0..2]);
    }

    #[test]
    fn all_waits_can_be_ended() {
        let mut queue = queue();
        queue.insert(5, Vec::new());
        let flights = queue.claim(0..6, true);
        queue.fail_all(&Error::Closed);
        assert_eq!(flights[0].wait(NOW), Err(Error::Closed));
        assert!(flights[5].wait(NOW).is_ok());
        assert_eq!(queue.next(), None);
    }
}
