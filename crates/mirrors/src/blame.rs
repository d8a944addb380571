//! Which ranges were wrong, or could not be read, at which places.

use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, Instant},
};

/// The most ranges that are kept. Who has more is wrong as a whole.
const MAX_RANGES: usize = 1 << 16;

/// How often a place is asked for a range until it counts as wrong there: its bytes may have been damaged on the way, or
/// somebody else's were taken for its.
pub(crate) const STRIKES: u8 = 2;

/// How long a range counts against a place: it may be mended there by others.
const MEMORY: Duration = Duration::from_secs(60);

/// Strikes of places against ranges, which do not overlap.
pub(crate) struct Blame {
    places: usize,
    ranges: BTreeMap<u64, Blamed>,
}

#[derive(Clone)]
struct Blamed {
    end: u64,
    /// By place.
    strikes: Vec<u8>,
    since: Instant,
}

impl Blame {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            places,
            ranges: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The end of the bytes from `range`'s start on that have the same strikes, and these, by place.
    pub(crate) fn at(&mut self, range: &Range<u64>) -> (u64, Vec<u8>) {
        self.forget_old(range);
        let before = self.ranges.range(..=range.start).next_back();
        if let Some((_, blamed)) = before.filter(|(_, blamed)| blamed.end > range.start) {
            return (blamed.end.min(range.end), blamed.strikes.clone());
        }
        let next = self.ranges.range(range.clone()).next();
        let end = next.map_or(range.end, |(start, _)| *start);
        (end, vec![0; self.places])
    }

    /// The pieces of a range whose bytes have the same strikes, in order, and these, by place.
    fn pieces(&mut self, range: &Range<u64>) -> Vec<(Range<u64>, Vec<u8>)> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (end, strikes) = self.at(&(at..range.end));
            pieces.push((at..end, strikes));
            at = end;
        }
        pieces
    }

    /// Counts a strike of a place. Returns whether there are too many ranges; all are forgotten then.
    pub(crate) fn strike(&mut self, range: &Range<u64>, place: usize) -> bool {
        self.split(range.start);
        self.split(range.end);
        for (piece, mut strikes) in self.pieces(range) {
            // One that counted as wrong already does not make the strikes of others count for longer.
            let known = self.ranges.get(&piece.start);
            let known = known.filter(|_| strikes[place] >= STRIKES);
            let since = known.map_or_else(Instant::now, |known| known.since);
            strikes[place] = strikes[place].saturating_add(1);
            let blamed = Blamed {
                end: piece.end,
                strikes,
                since,
            };
            self.ranges.insert(piece.start, blamed);
        }
        let are_many = self.ranges.len() > MAX_RANGES;
        if are_many {
            self.ranges.clear();
        }
        are_many
    }

    /// Counts a strike of a place where it had `seen` of them when it was asked. Those that it has got since were for the same
    /// bytes, perhaps, if these were damaged on the way to several readers. Returns whether any was counted, and whether there
    /// are too many ranges.
    pub(crate) fn strike_once(
        &mut self,
        range: &Range<u64>,
        place: usize,
        seen: u8,
    ) -> (bool, bool) {
        let (mut is_any, mut are_many) = (false, false);
        for (piece, strikes) in self.pieces(range) {
            if strikes[place] == seen {
                is_any = true;
                are_many |= self.strike(&piece, place);
            }
        }
        (is_any, are_many)
    }

    /// A place has this range right now.
    pub(crate) fn clear(&mut self, range: &Range<u64>, place: usize) {
        self.split(range.start);
        self.split(range.end);
        let mut free = Vec::new();
        for (start, blamed) in self.ranges.range_mut(range.clone()) {
            blamed.strikes[place] = 0;
            if blamed.strikes.iter().all(|strikes| *strikes == 0) {
                free.push(*start);
            }
        }
        for start in free {
            self.ranges.remove(&start);
        }
    }

    /// The parts of a range that count against a place, in order.
    pub(crate) fn against(&mut self, range: &Range<u64>, place: usize) -> Vec<Range<u64>> {
        let pieces = self.pieces(range).into_iter();
        let against = pieces.filter(|(_, strikes)| strikes[place] > 0);
        against.map(|(piece, _)| piece).collect()
    }

    /// Whether for each byte of a range there is a place that may have it right.
    pub(crate) fn has_hope(&mut self, range: &Range<u64>) -> bool {
        let mut pieces = self.pieces(range).into_iter();
        pieces.all(|(_, strikes)| strikes.iter().any(|strikes| *strikes < STRIKES))
    }

    /// Makes no range extend over `at`.
    fn split(&mut self, at: u64) {
        let Some((_, before)) = self.ranges.range_mut(..at).next_back() else {
            return;
        };
        if before.end > at {
            let behind = before.clone();
            before.end = at;
            self.ranges.insert(at, behind);
        }
    }

    fn forget_old(&mut self, range: &Range<u64>) {
        let first = self.ranges.range(..=range.start).next_back();
        let first = first.map_or(range.start, |(start, _)| *start);
        let old = self.ranges.range(first..range.end.max(first));
        let old = old.filter(|(_, blamed)| blamed.since.elapsed() >= MEMORY);
        let old: Vec<u64> = old.map(|(start, _)| *start).collect();
        for start in old {
            self.ranges.remove(&start);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "one range")]

    use super::*;

    #[test]
    fn strikes_are_counted_by_range_and_place() {
        let mut blame = Blame::new(2);
        assert!(blame.is_empty());
        assert_eq!(blame.at(&(0..100)), (100, vec![0, 0]));
        blame.strike(&(10..30), 0);
        blame.strike(&(20..40), 1);
        let runs = [(0, 10), (10, 20), (20, 30), (30, 40), (40, 100)];
        let strikes = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]];
        for ((start, end), strikes) in runs.into_iter().zip(strikes) {
            assert_eq!(blame.at(&(start..100)), (end, strikes.to_vec()));
        }
        assert_eq!(blame.against(&(0..100), 0), [10..20, 20..30]);
        blame.clear(&(0..25), 0);
        assert_eq!(blame.against(&(0..100), 0), [25..30]);
        blame.clear(&(0..100), 0);
        blame.clear(&(0..100), 1);
        assert!(blame.is_empty());
    }

    #[test]
    fn there_is_hope_until_all_places_have_their_strikes() {
        let mut blame = Blame::new(2);
        for place in [0, 1, 0] {
            blame.strike(&(0..10), place);
            assert!(blame.has_hope(&(0..20)));
        }
        blame.strike(&(5..6), 1);
        assert!(!blame.has_hope(&(0..20)));
        assert!(blame.has_hope(&(6..20)));
    }

    #[test]
    fn strikes_for_the_same_bytes_count_once() {
        let mut blame = Blame::new(1);
        assert_eq!(blame.strike_once(&(10..20), 0, 0), (true, false));
        assert_eq!(blame.strike_once(&(10..20), 0, 0), (false, false));
        // Of the part for which nobody has said it.
        assert_eq!(blame.strike_once(&(0..30), 0, 0), (true, false));
        assert_eq!(blame.strike_once(&(15..16), 0, 1), (true, false));
        let strikes = [(0, 15, 1), (15, 16, 2), (16, 30, 1)];
        for (start, end, strikes) in strikes {
            assert!((start..end).all(|at| blame.at(&(at..at + 1)).1 == [strikes]));
        }
    }

    #[test]
    fn one_that_counts_as_wrong_keeps_no_other_from_being_asked_again() {
        let mut blame = Blame::new(2);
        for place in [0, 1].repeat(STRIKES.into()) {
            blame.strike(&(0..10), place);
        }
        let before = Instant::now().checked_sub(MEMORY / 2);
        let before = before.expect("the machine runs for longer");
        blame.ranges.get_mut(&0).unwrap().since = before;
        blame.strike(&(0..10), 0);
        assert_eq!(blame.ranges[&0].since, before);
        blame.ranges.get_mut(&0).unwrap().since = before - MEMORY / 2;
        assert!(blame.has_hope(&(0..10)));
    }

    #[test]
    fn ranges_are_bounded() {
        let mut blame = Blame::new(1);
        let mut ranges = (0..).map(|number| number * 2..number * 2 + 1);
        let are_many = ranges.position(|range| blame.strike(&range, 0));
        assert_eq!(are_many, Some(MAX_RANGES));
        assert!(blame.is_empty());
    }

    #[test]
    fn a_place_that_has_it_right_excuses_no_other() {
        let mut blame = Blame::new(2);
        for place in [0, 1, 1] {
            blame.strike(&(0..10), place);
        }
        blame.clear(&(0..10), 0);
        assert_eq!(blame.at(&(0..10)), (10, vec![0, 2]));
    }
}
