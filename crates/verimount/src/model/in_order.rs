use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use verimount_models::{Check, Differs, Expected};
use verimount_scan::EntryId;

/// The content of one file, which comes in pieces that need not be in order, and all that it must be.
///
/// What waits for the pieces before it is bounded by how far threads that read are apart.
pub(crate) struct InOrder {
    size: u64,
    /// The ranges that have storage, if there are holes, which never come.
    stored: Option<Box<[Range<u64>]>>,
    /// How much was checked.
    at: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    /// For each name of the file that needs a check of its own.
    checks: Vec<(EntryId, Check)>,
    /// Whether there are bytes where the scan found a hole.
    is_changed: bool,
}

/// It was stopped in a hole, which may be so long that it never ends.
#[derive(Debug)]
pub(crate) struct Stopped;

/// A file of the tree is not what it must be.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) entry: EntryId,
    /// How; `None` if there are bytes where the scan found a hole.
    pub(crate) differs: Option<Differs>,
}

/// Zeros of holes that are hashed at a time.
const ZEROS: [u8; 4096] = [0; 4096];

impl InOrder {
    /// A file of `size` bytes, with these stored ranges if it has holes.
    pub(crate) fn new(size: u64, stored: Option<Box<[Range<u64>]>>) -> Self {
        Self {
            size,
            stored,
            at: 0,
            waiting: BTreeMap::new(),
            checks: Vec::new(),
            is_changed: false,
        }
    }

    /// Also compares it with what this entry must be.
    pub(crate) fn expect(&mut self, entry: EntryId, expected: &Expected) {
        self.checks
            .push((entry, Check::new(expected.clone(), self.size)));
    }

    /// Adds a piece, unless `stop` is set meanwhile. Returns its buffer, if that is no longer needed.
    pub(crate) fn add(
        &mut self,
        offset: u64,
        bytes: Vec<u8>,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<u8>>, Stopped> {
        if !self.is_next(offset) {
            self.waiting.insert(offset, bytes);
            return Ok(None);
        }
        self.append(offset, &bytes, stop)?;
        while let Some(next) = self.waiting.first_entry() {
            if !Self::may_follow(self.at, *next.key(), &self.stored) {
                break;
            }
            let (offset, bytes) = next.remove_entry();
            self.append(offset, &bytes, stop)?;
        }
        Ok(Some(bytes))
    }

    fn is_next(&self, offset: u64) -> bool {
        Self::may_follow(self.at, offset, &self.stored)
    }

    /// Whether there is nothing but a hole between `at` and `offset`.
    fn may_follow(at: u64, offset: u64, stored: &Option<Box<[Range<u64>]>>) -> bool {
        let is_hole = |stored: &[Range<u64>]| {
            let next = stored.partition_point(|range| range.end <= at);
            stored.get(next).is_none_or(|range| range.start >= offset)
        };
        offset <= at || stored.as_deref().is_some_and(is_hole)
    }

    /// Adds a piece behind which all is complete, with the hole before it.
    fn append(&mut self, offset: u64, bytes: &[u8], stop: &AtomicBool) -> Result<(), Stopped> {
        self.add_zeros(offset, stop)?;
        // A piece can begin in a hole: it is stored in whole blocks.
        let known = usize::try_from(self.at - offset).unwrap_or(usize::MAX);
        let (known, new) = bytes.split_at(known.min(bytes.len()));
        self.is_changed |= known.iter().any(|&byte| byte != 0);
        self.update(new);
        Ok(())
    }

    fn add_zeros(&mut self, until: u64, stop: &AtomicBool) -> Result<(), Stopped> {
        while self.at < until {
            if stop.load(Relaxed) {
                return Err(Stopped);
            }
            let len = (until - self.at).min(ZEROS.len() as u64);
            self.update(&ZEROS[..len as usize]);
        }
        Ok(())
    }

    fn update(&mut self, bytes: &[u8]) {
        for (_, check) in &mut self.checks {
            check.update(bytes);
        }
        self.at += bytes.len() as u64;
    }

    /// Whether all of it came. If it has holes, that is not known before the end: bytes in a hole may still come.
    pub(crate) fn is_complete(&self) -> bool {
        self.stored.is_none() && self.at >= self.size
    }

    /// Ends all checks, with the hole at the file's end, unless `stop` is set meanwhile.
    pub(crate) fn finish(mut self, stop: &AtomicBool) -> Result<Vec<Difference>, Stopped> {
        if self.is_next(self.size) {
            self.add_zeros(self.size, stop)?;
        }
        let is_changed = self.is_changed;
        let checks = self.checks.into_iter();
        let different = checks.filter_map(|(entry, check)| match check.finish() {
            Ok(()) if is_changed => Some(Difference {
                entry,
                differs: None,
            }),
            Ok(()) => None,
            Err(differs) => Some(Difference {
                entry,
                differs: Some(differs),
            }),
        });
        Ok(different.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blob of git with these bytes, by `git hash-object`.
    fn check(pieces: &[(u64, &[u8])], stored: Option<&[Range<u64>]>) -> bool {
        let stop = AtomicBool::new(false);
        let expected = Expected::of_blob("375134d9d2110c51941a6bcd3721d9341130c5d6").unwrap();
        let mut file = InOrder::new(12, stored.map(Into::into));
        file.expect(EntryId::ROOT, &expected);
        for (offset, bytes) in pieces {
            file.add(*offset, bytes.to_vec(), &stop).unwrap();
        }
        file.finish(&stop).unwrap().is_empty()
    }

    #[test]
    fn pieces_may_come_in_any_order() {
        let (a, b, c): (&[u8], &[u8], &[u8]) = (b"ab\0\0", b"\0\0\0\0", b"cd\0\0");
        for order in [
            [(0, a), (4, b), (8, c)],
            [(8, c), (4, b), (0, a)],
            [(4, b), (0, a), (8, c)],
        ] {
            assert!(check(&order, None), "{order:?}");
        }
        assert!(!check(&[(0, a), (4, b)], None));
        assert!(!check(&[(0, a), (4, b), (8, a)], None));
    }

    #[test]
    fn holes_are_zeros() {
        let (a, c): (&[u8], &[u8]) = (b"ab", b"cd");
        let stored = [0..2, 8..10];
        assert!(check(&[(0, a), (8, c)], Some(&stored)));
        assert!(check(&[(8, c), (0, a)], Some(&stored)));
        // In whole blocks.
        assert!(check(&[(0, b"ab\0\0"), (6, b"\0\0cd\0\0")], Some(&stored)));
        assert!(check(&[(6, b"\0\0cd"), (0, a)], Some(&stored)));
        assert!(!check(&[(0, a), (6, b"\0xcd")], Some(&stored)));
        assert!(!check(&[(0, a)], Some(&stored)));
        // Bytes in a hole that was hashed already.
        let (all, changed): (&[u8], &[u8]) = (b"ab\0\0\0\0\0\0cd\0\0", b"\0x\0");
        for (late, is_good) in [(changed, false), (&[0; 3], true)] {
            assert_eq!(check(&[(0, a), (8, c), (4, late)], Some(&stored)), is_good);
            assert_eq!(check(&[(0, all), (4, late)], Some(&stored)), is_good);
        }
    }

    #[test]
    fn only_files_without_holes_are_complete_before_the_end() {
        let stop = AtomicBool::new(false);
        for (stored, is_complete) in [(None, true), (Some(Box::from([0..1, 2..3])), false)] {
            let mut file = InOrder::new(4, stored);
            file.add(0, b"ab\0\0".to_vec(), &stop).unwrap();
            assert_eq!(file.is_complete(), is_complete);
        }
    }

    /// Otherwise this would never end.
    #[test]
    fn a_hole_without_end_is_stopped() {
        let stop = AtomicBool::new(true);
        let last = u64::MAX - 1;
        let mut file = InOrder::new(u64::MAX, Some(Box::from([0..1, last..u64::MAX])));
        file.add(0, vec![1], &stop).unwrap();
        assert!(file.add(last, vec![1], &stop).is_err());
        let hole = InOrder::new(u64::MAX, Some(Box::default()));
        assert!(hole.finish(&stop).is_err());
    }
}
