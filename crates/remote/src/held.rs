//! Pieces of files in memory, and those on their way there.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    ops::Range,
    sync::Arc,
    time::Instant,
};

use verimount_source::GRANULE;

use crate::{Error, budget::Budget, flight::Flight};

/// How often a piece must have been read to be kept for that. Two neighbouring reads may share one.
const OFTEN: u32 = 3;

/// The number of a file that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(pub(crate) u64);

/// Where a piece begins: a granule of a file, or a part of one. No two of them overlap.
pub(crate) type Key = (FileId, u64);

/// The pieces that are in memory or on their way, as many as the budget allows and readers wait for.
pub(crate) struct Held {
    budget: Budget,
    slots: BTreeMap<Key, Slot>,
    /// How many were fetched early, or are, and nobody has read; and by file, for those that have any.
    unread: usize,
    unread_of: HashMap<FileId, usize>,
    /// Counts uses, to evict what was not used for longest.
    uses: u64,
    /// How many pieces are here.
    here: usize,
    /// Buffers of evicted pieces, for the next ones: new memory would have to be cleared first.
    spare: Vec<Vec<u8>>,
}

struct Slot {
    flight: Arc<Flight>,
    /// Where it ends.
    end: u64,
    used: u64,
    /// How often readers have asked for it.
    reads: u32,
    /// Whether a reader has asked for its end, so that one that reads in order is done with it.
    is_done: bool,
    /// Since when it is here.
    landed: Option<Instant>,
}

impl Held {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            slots: BTreeMap::new(),
            unread: 0,
            unread_of: HashMap::new(),
            uses: 0,
            here: 0,
            spare: Vec::new(),
        }
    }

    /// Keeps this many bytes from now on. More make room as others come.
    pub(crate) fn set_memory(&mut self, bytes: u64) {
        self.budget = self.budget.with_memory(bytes);
    }

    /// What bounds it and all that is fetched.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// How many bytes are here.
    pub(crate) fn bytes(&self) -> u64 {
        let slots = self.slots.iter();
        let here = slots.filter(|(_, slot)| slot.landed.is_some());
        here.map(|((_, start), slot)| slot.end - start).sum()
    }

    /// The pieces of a file, in order, that have all of these bytes: those that are here or on their way, and those that
    /// are missing, which go on to the next piece, granule or end of what is `around`.
    pub(crate) fn covering(
        &self,
        id: FileId,
        bytes: &Range<u64>,
        around: &Range<u64>,
    ) -> Vec<Range<u64>> {
        let mut pieces = Vec::new();
        let mut at = bytes.start;
        while at < bytes.end {
            let granule = at / GRANULE * GRANULE;
            let before = self.slots.range((id, granule)..=(id, at)).next_back();
            let before = before.map_or(granule..granule, |((_, start), slot)| *start..slot.end);
            let piece = if before.end > at {
                before
            } else {
                let behind = self.slots.range((id, at)..).next();
                let behind = behind.filter(|((file, _), _)| *file == id);
                let next = behind.map_or(u64::MAX, |((_, start), _)| *start);
                let end = next.min(granule + GRANULE).min(around.end);
                before.end.max(around.start)..end
            };
            debug_assert!(at < piece.end, "each step goes on");
            at = piece.end;
            pieces.push(piece);
        }
        pieces
    }

    /// Whether a piece is here or on its way.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.slots.contains_key(&key)
    }

    /// A piece that is here or on its way, for a reader; whether it reads it to its end.
    pub(crate) fn read(&mut self, key: Key, to_end: bool) -> Option<Arc<Flight>> {
        let slot = self.slots.get_mut(&key)?;
        self.uses += 1;
        slot.used = self.uses;
        slot.reads = slot.reads.saturating_add(1);
        slot.is_done |= to_end;
        let (flight, is_first) = (slot.flight.clone(), slot.reads == 1);
        if is_first {
            self.no_longer_unread(key.0);
        }
        Some(flight)
    }

    /// Adds a piece that a reader waits for, even if there is no room.
    pub(crate) fn add(&mut self, id: FileId, piece: &Range<u64>, to_end: bool) -> Arc<Flight> {
        self.make_room();
        self.insert(id, piece, 1, to_end)
    }

    /// Adds a piece that is here, if there is room; and no second time, as the beginning and the end of a short
    /// file overlap.
    pub(crate) fn add_here(&mut self, id: FileId, start: u64, bytes: Vec<u8>) {
        let piece = start..start + bytes.len() as u64;
        if !self.has((id, start)) && self.make_room() {
            self.insert(id, &piece, 1, false);
            self.landed((id, start), bytes);
        }
    }

    /// Adds a piece that will be needed soon; whether there is room. All files whose readers are ahead of their
    /// reads have the same share.
    pub(crate) fn add_early(&mut self, id: FileId, piece: &Range<u64>) -> bool {
        let unread = self.unread_of.get(&id).copied().unwrap_or_default();
        let sharing = self.unread_of.len() + usize::from(unread == 0);
        let is_free = unread < self.budget.unread / sharing && self.unread < self.budget.unread;
        let has_room = (is_free || self.evict_stale()) && self.make_room();
        if has_room {
            self.insert(id, piece, 0, false);
            self.unread += 1;
            *self.unread_of.entry(id).or_default() += 1;
        }
        has_room
    }

    fn insert(&mut self, id: FileId, piece: &Range<u64>, reads: u32, is_done: bool) -> Arc<Flight> {
        self.uses += 1;
        let flight = Arc::<Flight>::default();
        let slot = Slot {
            flight: flight.clone(),
            end: piece.end,
            used: self.uses,
            reads,
            is_done,
            landed: None,
        };
        self.slots.insert((id, piece.start), slot);
        flight
    }

    /// A piece that was on its way is here.
    pub(crate) fn landed(&mut self, key: Key, bytes: Vec<u8>) {
        if let Some(slot) = self.slots.get_mut(&key) {
            debug_assert_eq!(slot.end - key.1, bytes.len() as u64);
            self.here += usize::from(slot.landed.is_none());
            slot.landed = Some(Instant::now());
            slot.flight.land(Ok(bytes));
        }
    }

    /// An attempt to fetch these bytes has failed and may be repeated, or no longer has failed.
    pub(crate) fn set_trouble(&self, id: FileId, bytes: &Range<u64>, trouble: Option<&Error>) {
        let slots = self.slots.range((id, bytes.start)..(id, bytes.end));
        slots.for_each(|(_, slot)| slot.flight.set_trouble(trouble.cloned()));
    }

    /// Forgets pieces that could not be fetched, so that the next read tries again.
    pub(crate) fn fail(&mut self, id: FileId, bytes: &Range<u64>, error: &Error) {
        for key in self.starting_in(id, bytes) {
            if let Some(slot) = self.remove(key) {
                slot.flight.land(Err(error.clone()));
            }
        }
    }

    /// The pieces of a file that begin among these bytes.
    fn starting_in(&self, id: FileId, bytes: &Range<u64>) -> Vec<Key> {
        let slots = self.slots.range((id, bytes.start)..(id, bytes.end));
        slots.map(|(key, _)| *key).collect()
    }

    /// Forgets all of a file, and ends the wait for what is not here.
    pub(crate) fn close(&mut self, id: FileId, error: &Error) {
        for key in self.starting_in(id, &(0..u64::MAX)) {
            let slot = self.remove(key);
            if let Some(slot) = slot.filter(|slot| slot.landed.is_none()) {
                slot.flight.land(Err(error.clone()));
            }
        }
    }

    /// Forgets the pieces of these granules that are here; returns how many bytes those were.
    pub(crate) fn distrust(&mut self, id: FileId, granules: &Range<u64>) -> u64 {
        let mut forgotten = 0;
        for key in self.starting_in(id, granules) {
            let here = self.slots.get(&key).filter(|slot| slot.landed.is_some());
            if let Some(end) = here.map(|slot| slot.end) {
                self.remove(key);
                forgotten += end - key.1;
            }
        }
        forgotten
    }

    /// A buffer for a piece, with any content and length.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Frees the buffers that wait for pieces.
    pub(crate) fn free_spare(&mut self) {
        self.spare = Vec::new();
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
        if let Entry::Occupied(mut unread) = self.unread_of.entry(id) {
            self.unread -= 1;
            *unread.get_mut() -= 1;
            if *unread.get() == 0 {
                unread.remove();
            }
        }
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

    /// Whether a piece is on its way.
    pub(crate) fn is_coming(&self, key: Key) -> bool {
        let slot = self.slots.get(&key);
        slot.is_some_and(|slot| slot.landed.is_none())
    }

    /// How many pieces are on their way.
    pub(crate) fn coming(&self) -> usize {
        self.slots.len() - self.here
    }

    pub(crate) fn check(&self) {
        let count =
            |is_one: fn(&Slot) -> bool| self.slots.values().filter(|slot| is_one(slot)).count();
        debug_assert_eq!(self.here, count(|slot| slot.landed.is_some()));
        debug_assert_eq!(self.unread, count(|slot| slot.reads == 0));
        debug_assert_eq!(self.unread, self.unread_of.values().sum::<usize>());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "one piece")]

    use std::time::Duration;

    use super::*;
    use crate::granules::bytes_of;

    const FILE: FileId = FileId(1);

    const OTHER: FileId = FileId(2);

    const NEVER: Duration = Duration::MAX;

    /// Room for four granules, any of which may be fetched early.
    fn small(stale: Duration) -> Held {
        Held::new(Budget {
            granules: 4,
            unread: 4,
            stale,
            ..Budget::default()
        })
    }

    impl Held {
        /// Adds granules of a file early, as far as there is room; returns how many those were.
        fn early(&mut self, file: FileId, mut granules: Range<u64>) -> usize {
            let added = granules
                .by_ref()
                .take_while(|number| self.add_early(file, &granule(*number)));
            added.count()
        }

        /// Reads granules to their ends, which are fetched if they are not here.
        fn reads(&mut self, granules: Range<u64>) {
            for piece in granules.map(granule) {
                let key = (FILE, piece.start);
                if self.read(key, true).is_none() {
                    self.add(FILE, &piece, true);
                    self.landed(key, bytes());
                }
            }
        }

        fn holds(&self, granules: impl IntoIterator<Item = u64>) -> bool {
            let mut starts = granules.into_iter().map(|number| granule(number).start);
            starts.all(|start| self.has((FILE, start)))
        }
    }

    fn granule(number: u64) -> Range<u64> {
        bytes_of(&(number..number + 1), u64::MAX)
    }

    /// Those of a granule.
    fn bytes() -> Vec<u8> {
        vec![0; GRANULE as usize]
    }

    #[test]
    fn pieces_cover_bytes_and_do_not_overlap() {
        const K: u64 = 1 << 10;
        let mut held = small(NEVER);
        let covering =
            |held: &Held, bytes: Range<u64>, around| held.covering(FILE, &bytes, &around);
        let (first, second) = (0..GRANULE, GRANULE..2 * GRANULE);
        assert_eq!(covering(&held, 8 * K..9 * K, 0..GRANULE), [0..GRANULE]);
        assert_eq!(covering(&held, 8 * K..9 * K, 8 * K..9 * K), [8 * K..9 * K]);
        held.add(FILE, &(8 * K..16 * K), true);
        // What is here is enough.
        let within = 9 * K..10 * K;
        assert_eq!(covering(&held, within, first.clone()), [8 * K..16 * K]);
        // Before, over and behind it.
        let before = [0..8 * K, 8 * K..16 * K];
        assert_eq!(covering(&held, K..9 * K, first.clone()), before);
        let behind = [8 * K..16 * K, 16 * K..GRANULE];
        assert_eq!(covering(&held, 9 * K..17 * K, first), behind);
        let alone = [4 * K..8 * K, 8 * K..16 * K, 16 * K..20 * K];
        assert_eq!(covering(&held, 4 * K..20 * K, 4 * K..20 * K), alone);
        let all = [0..8 * K, 8 * K..16 * K, 16 * K..GRANULE, second];
        let two = 0..2 * GRANULE;
        assert_eq!(covering(&held, two.clone(), two), all);
        // Pieces of another file are none of this one.
        let other = held.covering(OTHER, &(0..1), &(0..GRANULE));
        assert_eq!(other, [0..GRANULE]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut held = small(NEVER);
        held.reads(0..4);
        held.reads(0..1);
        // The least recently used make room; what is on its way stays.
        assert_eq!(held.early(FILE, 10..12), 2);
        assert!(held.holds([0, 3]) && !held.holds([1]) && !held.holds([2]));
        assert_eq!(held.early(FILE, 20..30), 2);
        assert!(held.holds([10, 11]));
        assert_eq!(held.slots.len(), 4);
    }

    #[test]
    fn what_is_fetched_early_is_shared() {
        let mut held = Held::new(Budget {
            unread: 8,
            ..Budget::default()
        });
        assert_eq!((held.early(FILE, 0..6), held.early(OTHER, 0..6)), (6, 2));
        held.reads(0..4);
        assert_eq!((held.early(OTHER, 2..9), held.early(FILE, 6..20)), (2, 2));
    }

    #[test]
    fn what_was_not_read_yet_stays_until_it_is_stale() {
        for (stale, stays) in [(NEVER, true), (Duration::ZERO, false)] {
            let mut held = small(stale);
            held.early(FILE, 9..13);
            for number in 9..13 {
                held.landed((FILE, granule(number).start), bytes());
            }
            held.reads(0..8);
            assert_eq!(held.holds([9]), stays);
            assert_eq!(held.early(FILE, 20..21), usize::from(!stays));
        }
    }

    #[test]
    fn what_is_needed_again_stays_longer() {
        let mut held = small(NEVER);
        // Read often, read in part, and read to its end.
        (0..OFTEN).for_each(|_| held.reads(0..1));
        held.add(FILE, &granule(1), false);
        held.landed((FILE, GRANULE), bytes());
        held.reads(2..20);
        assert!(held.holds([0, 1]) && !held.holds([2]));
    }

    #[test]
    fn memory_can_be_limited_later() {
        let mut held = Held::new(Budget::default());
        held.reads(0..20);
        held.set_memory(4 * GRANULE);
        assert_eq!(held.bytes(), 20 * GRANULE);
        held.reads(20..21);
        assert_eq!(held.bytes(), 4 * GRANULE);
    }

    #[test]
    fn memory_is_used_again() {
        let mut held = small(NEVER);
        held.add_here(FILE, 0, vec![7; 100]);
        held.reads(0..1);
        assert!(held.buffer().is_empty());
        held.reads(1..5);
        assert_eq!(held.buffer(), [7; 100]);
    }
}
