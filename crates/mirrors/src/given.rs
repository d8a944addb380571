//! Which place gave what each thread has read, until it says whether that is right.

use std::{
    collections::HashMap,
    ops::Range,
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use verimount_sync::Mutex;

/// The most threads that are kept. All are forgotten when there are more: what they say of their last reads is then said
/// of nobody.
const MAX_THREADS: usize = 1024;

/// The most pieces that are kept of a thread: more than the blocks of the largest read that are read again one by one. The
/// oldest are forgotten.
const MAX_PIECES: usize = 4096;

/// For how long it counts that nobody else has answered a thread: until then, who verifies bytes has judged them.
const RECENT: Duration = Duration::from_secs(1);

/// A range, and who gave it.
pub(crate) type Piece = (Range<u64>, Giver);

/// Who gave bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Giver {
    /// A place that may have them right, and its strikes when it was asked.
    Place(usize, u8),
    /// One that has had them wrong too often, as no other one had answered by then.
    LastResort(Instant),
}

/// Who verifies bytes says what is wrong in the thread that has read them. Only the place that gave them is to blame, and
/// which that is changes with the health of places.
#[derive(Debug, Default)]
pub(crate) struct Given(Mutex<HashMap<ThreadId, Vec<Piece>>>);

impl Given {
    /// This thread has read these pieces, which are in `range`.
    pub(crate) fn note(&self, range: &Range<u64>, pieces: Vec<Piece>) {
        // What was read there before no longer counts.
        self.take(range);
        let mut given = self.0.lock();
        let thread = thread::current().id();
        if given.len() >= MAX_THREADS && !given.contains_key(&thread) {
            given.clear();
        }
        let known = given.entry(thread).or_default();
        known.extend(pieces);
        let surplus = known.len().saturating_sub(MAX_PIECES);
        known.drain(..surplus);
    }

    /// Whether this thread was given something by the last resort just now, and has not said yet whether it is right.
    pub(crate) fn is_last_resort_recent(&self) -> bool {
        let given = self.0.lock();
        let mut pieces = given.get(&thread::current().id()).into_iter().flatten();
        pieces.any(|(_, giver)| matches!(giver, Giver::LastResort(at) if at.elapsed() < RECENT))
    }

    /// The pieces of what this thread has read that are in `range`. They are forgotten.
    pub(crate) fn take(&self, range: &Range<u64>) -> Vec<Piece> {
        let mut given = self.0.lock();
        let Some(pieces) = given.get_mut(&thread::current().id()) else {
            return Vec::new();
        };
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for (piece, giver) in pieces.drain(..) {
            let inside = piece.start.max(range.start)..piece.end.min(range.end);
            if inside.is_empty() {
                left.push((piece, giver));
                continue;
            }
            let outside = [piece.start..inside.start, inside.end..piece.end];
            let outside = outside.into_iter().filter(|part| !part.is_empty());
            left.extend(outside.map(|part| (part, giver)));
            taken.push((inside, giver));
        }
        *pieces = left;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::{Giver::Place, *};

    #[test]
    fn a_piece_is_taken_once_and_by_its_thread() {
        let given = Given::default();
        given.note(&(0..20), vec![(0..10, Place(0, 0)), (10..20, Place(1, 0))]);
        thread::scope(|scope| {
            let other = scope.spawn(|| given.take(&(0..20)));
            assert_eq!(other.join().unwrap(), []);
        });
        assert_eq!(
            given.take(&(5..15)),
            [(5..10, Place(0, 0)), (10..15, Place(1, 0))]
        );
        assert_eq!(
            given.take(&(0..20)),
            [(0..5, Place(0, 0)), (15..20, Place(1, 0))]
        );
        assert_eq!(given.take(&(0..20)), []);
    }

    #[test]
    fn the_last_resort_counts_until_its_bytes_are_judged() {
        let given = Given::default();
        given.note(&(0..10), vec![(0..10, Place(0, 0))]);
        assert!(!given.is_last_resort_recent());
        let now = Instant::now();
        given.note(&(10..20), vec![(10..20, Giver::LastResort(now))]);
        assert!(given.is_last_resort_recent());
        given.take(&(10..20));
        assert!(!given.is_last_resort_recent());
        let before = now.checked_sub(RECENT).expect("the machine runs");
        given.note(&(10..20), vec![(10..20, Giver::LastResort(before))]);
        assert!(!given.is_last_resort_recent());
    }

    #[test]
    fn the_last_read_counts() {
        let given = Given::default();
        given.note(&(0..10), vec![(0..10, Place(0, 0))]);
        given.note(&(20..30), vec![(20..30, Place(0, 0))]);
        given.note(&(0..10), vec![(0..10, Place(1, 0))]);
        assert_eq!(
            given.take(&(0..30)),
            [(20..30, Place(0, 0)), (0..10, Place(1, 0))]
        );
    }
}
