use std::{collections::BTreeMap, ops::Range};

use verimount_models::{Check, Differs, Expected};
use verimount_scan::EntryId;

/// The content of one file, which comes in pieces that need not be in order, and all that it must be.
///
/// What waits for the pieces before it is bounded by how far threads that read are apart.
#[derive(Debug)]
pub(crate) struct InOrder {
    size: u64,
    /// The ranges that have storage, if there are holes, which never come.
    stored: Option<Box<[Range<u64>]>>,
    /// How much was checked.
    at: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    /// For each name of the file that needs a check of its own.
    checks: Vec<(EntryId, Check)>,
    is_changed: bool,
}

/// A file of the tree is not what it must be.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) entry: EntryId,
    /// How; `None` if its bytes came twice, and differed.
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

    /// Adds a piece. Returns its buffer, if that is no longer needed.
    pub(crate) fn add(&mut self, offset: u64, bytes: Vec<u8>) -> Option<Vec<u8>> {
        if !self.is_next(offset) {
            self.waiting.insert(offset, bytes);
            return None;
        }
        self.append(offset, &bytes);
        while let Some(next) = self.waiting.first_entry() {
            if !Self::may_follow(self.at, *next.key(), &self.stored) {
                break;
            }
            let (offset, bytes) = next.remove_entry();
            self.append(offset, &bytes);
        }
        Some(bytes)
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
    fn append(&mut self, offset: u64, bytes: &[u8]) {
        self.add_zeros(offset);
        // A piece can begin in a hole: it is stored in whole blocks.
        let known = usize::try_from(self.at - offset).unwrap_or(usize::MAX);
        let (known, new) = bytes.split_at(known.min(bytes.len()));
        self.is_changed |= known.iter().any(|&byte| byte != 0);
        self.update(new);
    }

    fn add_zeros(&mut self, until: u64) {
        while self.at < until {
            let len = (until - self.at).min(ZEROS.len() as u64);
            self.update(&ZEROS[..len as usize]);
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        for (_, check) in &mut self.checks {
            check.update(bytes);
        }
        self.at += bytes.len() as u64;
    }

    /// Whether all of it came.
    pub(crate) fn is_complete(&self) -> bool {
        self.at >= self.size
    }

    /// Ends all checks, with the hole at the file's end.
    pub(crate) fn finish(mut self) -> Vec<Difference> {
        if self.is_next(self.size) {
            self.add_zeros(self.size);
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
        different.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blob of git with these bytes, by `git hash-object`.
    fn check(pieces: &[(u64, &[u8])], stored: Option<&[Range<u64>]>) -> bool {
        let expected = Expected::of_blob("375134d9d2110c51941a6bcd3721d9341130c5d6").unwrap();
        let mut file = InOrder::new(12, stored.map(Into::into));
        file.expect(EntryId::ROOT, &expected);
        for (offset, bytes) in pieces {
            file.add(*offset, bytes.to_vec());
        }
        file.finish().is_empty()
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
    }
}
