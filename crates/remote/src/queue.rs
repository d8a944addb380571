//! Which granules are here, which are on their way, and what is fetched next.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::Arc,
};

use crate::{Error, flight::Flight, granules::is_part_boundary};

/// Connections that only readers who wait may use, so that none waits behind what is fetched early.
const RESERVED: usize = 2;

/// The granules in memory and those that are being fetched. Each is asked for at most once.
pub(crate) struct Queue {
    slots: HashMap<u64, Slot>,
    /// The most granules that are kept. Those that readers wait for come on top.
    capacity: usize,
    /// Connections that may fetch early.
    early_connections: usize,
    /// Counts uses, to evict what was not used for longest.
    uses: u64,
    /// Runs of granules that somebody waits for.
    awaited: VecDeque<Range<u64>>,
    /// Runs of granules that will be needed soon.
    early: VecDeque<Range<u64>>,
    /// How many of these are being fetched.
    early_running: usize,
}

struct Slot {
    flight: Arc<Flight>,
    used: u64,
    /// Whether a reader has asked for it.
    is_read: bool,
}

/// A run to fetch, in one request unless that breaks off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) granules: Range<u64>,
    is_early: bool,
}

impl Queue {
    pub(crate) fn new(capacity: usize, connections: usize) -> Self {
        Self {
            slots: HashMap::new(),
            capacity,
            early_connections: connections.saturating_sub(RESERVED).max(1),
            uses: 0,
            awaited: VecDeque::new(),
            early: VecDeque::new(),
            early_running: 0,
        }
    }

    /// A granule that is here already.
    pub(crate) fn insert(&mut self, granule: u64, bytes: Vec<u8>) {
        self.add(granule, Arc::new(Flight::landed(bytes)), true);
    }

    /// The granules, which the caller waits for. Those that are not on their way are queued before
    /// everything that nobody waits for.
    pub(crate) fn claim(&mut self, granules: Range<u64>) -> Vec<Arc<Flight>> {
        self.promote(&granules);
        let mut missing = Runs::default();
        let mut flights = Vec::new();
        for granule in granules {
            let flight = match self.used(granule, true) {
                Some(flight) => flight,
                None => {
                    self.make_room();
                    missing.add(granule);
                    self.add(granule, Arc::default(), true)
                }
            };
            flights.push(flight);
        }
        self.awaited.extend(missing.0);
        flights
    }

    /// Queues those granules that are not on their way, as far as there is room.
    pub(crate) fn need_soon(&mut self, granules: Range<u64>) {
        let mut missing = Runs::default();
        for granule in granules {
            if self.used(granule, false).is_some() {
                continue;
            }
            if !self.make_room() {
                break;
            }
            missing.add(granule);
            self.add(granule, Arc::default(), false);
        }
        self.early.extend(missing.0);
    }

    /// What to fetch now, if anything.
    pub(crate) fn next(&mut self) -> Option<Run> {
        if let Some(granules) = self.awaited.pop_front() {
            return Some(Run {
                granules,
                is_early: false,
            });
        }
        if self.early_running == self.early_connections {
            return None;
        }
        let granules = self.early.pop_front()?;
        self.early_running += 1;
        Some(Run {
            granules,
            is_early: true,
        })
    }

    /// A run is not fetched any longer.
    pub(crate) fn ended(&mut self, run: &Run) {
        if run.is_early {
            self.early_running -= 1;
        }
    }

    /// A granule that is on its way.
    pub(crate) fn flight(&self, granule: u64) -> Option<Arc<Flight>> {
        self.slots.get(&granule).map(|slot| slot.flight.clone())
    }

    /// Forgets granules that could not be fetched, so that the next read tries again.
    pub(crate) fn fail(&mut self, granules: Range<u64>, error: &Error) {
        for granule in granules {
            if let Some(slot) = self.slots.remove(&granule) {
                slot.flight.land(Err(error.clone()));
            }
        }
    }

    fn used(&mut self, granule: u64, is_read: bool) -> Option<Arc<Flight>> {
        let slot = self.slots.get_mut(&granule)?;
        self.uses += 1;
        slot.used = self.uses;
        slot.is_read |= is_read;
        Some(slot.flight.clone())
    }

    fn add(&mut self, granule: u64, flight: Arc<Flight>, is_read: bool) -> Arc<Flight> {
        self.uses += 1;
        let slot = Slot {
            flight: flight.clone(),
            used: self.uses,
            is_read,
        };
        self.slots.insert(granule, slot);
        flight
    }

    /// Puts runs that overlap these granules before all that nobody waits for.
    fn promote(&mut self, granules: &Range<u64>) {
        let overlaps = |run: &Range<u64>| run.start < granules.end && granules.start < run.end;
        let queued = std::mem::take(&mut self.early).into_iter();
        let (wanted, rest): (VecDeque<_>, VecDeque<_>) = queued.partition(overlaps);
        self.awaited.extend(wanted);
        self.early = rest;
    }

    /// Evicts a granule if all places are taken; whether one is free now. What is on its way stays.
    ///
    /// What was fetched early and not read yet stays longer than what was read, or a slow reader's
    /// would be evicted by a fast one. More than half of the places are not kept for that.
    fn make_room(&mut self) -> bool {
        if self.slots.len() < self.capacity {
            return true;
        }
        let unread = self.slots.values().filter(|slot| !slot.is_read).count();
        let keeps_unread = unread <= self.capacity / 2;
        let here = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.flight.has_landed());
        let first = here.min_by_key(|(_, slot)| (keeps_unread && !slot.is_read, slot.used));
        let first = first.map(|(granule, _)| *granule);
        first.is_some_and(|granule| self.slots.remove(&granule).is_some())
            && self.slots.len() < self.capacity
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
    use super::*;

    fn runs(queue: &mut Queue) -> Vec<Range<u64>> {
        std::iter::from_fn(|| queue.next())
            .map(|run| run.granules)
            .collect()
    }

    #[test]
    fn each_granule_is_asked_for_once() {
        let mut queue = Queue::new(512, 8);
        queue.need_soon(2..4);
        assert_eq!(queue.claim(0..6).len(), 6);
        assert_eq!(queue.claim(1..3).len(), 2);
        // What is awaited now was queued early before.
        assert_eq!(runs(&mut queue), [2..4, 0..2, 4..6]);
    }

    #[test]
    fn a_request_stays_inside_a_part() {
        let mut queue = Queue::new(512, 8);
        queue.claim(60..130);
        assert_eq!(runs(&mut queue), [60..64, 64..128, 128..130]);
    }

    #[test]
    fn some_connections_are_kept_for_readers() {
        let mut queue = Queue::new(512, 3);
        queue.need_soon(0..2);
        queue.need_soon(10..12);
        let early = queue.next().unwrap();
        assert_eq!(early.granules, 0..2);
        assert_eq!(queue.next(), None);
        queue.claim(20..21);
        assert_eq!(queue.next().unwrap().granules, 20..21);
        queue.ended(&early);
        assert_eq!(queue.next().unwrap().granules, 10..12);
    }

    #[test]
    fn memory_is_bounded() {
        let mut queue = Queue::new(4, 8);
        for granule in 0..4 {
            queue.insert(granule, Vec::new());
        }
        queue.claim(0..1);
        // The least recently used make room; what is on its way stays.
        queue.need_soon(10..12);
        assert!(queue.flight(0).is_some() && queue.flight(3).is_some());
        assert!(queue.flight(1).is_none() && queue.flight(2).is_none());
        queue.need_soon(20..30);
        assert_eq!(queue.slots.len(), 4);
        assert!(queue.flight(10).is_some() && queue.flight(11).is_some());
    }

    #[test]
    fn what_was_not_read_yet_stays_longer() {
        let mut queue = Queue::new(4, 8);
        queue.need_soon(9..10);
        queue.flight(9).unwrap().land(Ok(Vec::new()));
        for granule in 0..8 {
            queue
                .claim(granule..granule + 1)
                .remove(0)
                .land(Ok(Vec::new()));
        }
        assert!(queue.flight(9).is_some());
        queue.claim(9..10);
        for granule in 0..8 {
            queue
                .claim(granule..granule + 1)
                .remove(0)
                .land(Ok(Vec::new()));
        }
        assert!(queue.flight(9).is_none());
    }

    #[test]
    fn what_failed_is_tried_again() {
        let mut queue = Queue::new(4, 8);
        let flight = queue.claim(0..1).remove(0);
        queue.next();
        queue.fail(0..1, &Error::NoRanges);
        assert!(flight.has_landed());
        queue.claim(0..1);
        assert_eq!(queue.next().unwrap().granules, 0..1);
    }
}
