//! Where the data of an extent is whose list has only lengths: behind that of all before.

use std::{ops::Range, sync::Arc};

use quick_cache::Weighter;
use verimount_source::{Kept, keep};
use verimount_sync::Mutex;

use crate::{
    Error, Unsupported,
    numbers::{to_u64, to_usize},
    space::Address,
};

/// For every how many extents there is a sum: as many lengths are added for one extent, at most. A list takes a sixteenth
/// of its size in memory.
const STRIDE: u64 = 32;

/// The most extents of a list: those of a file of 256 GiB in units of 4 KiB. The sums of the longest list take 16 MiB, and
/// are made from 256 MiB of lengths.
const MAX_EXTENTS: u64 = 1 << 26;

/// How many bytes of sums are kept: those of the longest list, and of many others.
const KEPT_BYTES: u64 = 32 << 20;

/// How many bytes the sums of a list usually take: those of a file of 64 MiB in units of 4 KiB.
const USUAL_LEN: u64 = 4096;

/// The sums of the lists that were used last, by where their records begin and how many they have.
pub(crate) struct AllSums(Kept<(Address, u64), Arc<Sums>, ByLength>);

#[derive(Debug, Clone)]
struct ByLength;

impl Weighter<(Address, u64), Arc<Sums>> for ByLength {
    fn weight(&self, (_, extents): &(Address, u64), _: &Arc<Sums>) -> u64 {
        let sums = Sums::count(*extents).saturating_mul(to_u64(size_of::<u64>()));
        sums.saturating_add(to_u64(size_of::<Sums>()))
    }
}

impl Default for AllSums {
    fn default() -> Self {
        Self(keep(KEPT_BYTES, USUAL_LEN, ByLength))
    }
}

impl AllSums {
    /// The sum of the lengths in front of extent `number` in the list of `extents` at `list`. `add` adds the lengths of some
    /// extents.
    pub(crate) fn before(
        &self,
        list: Address,
        extents: u64,
        number: u64,
        add: impl Fn(Range<u64>) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        if number < STRIDE {
            return add(0..number);
        }
        if extents > MAX_EXTENTS {
            return Err(Unsupported::ExtentCount(extents).into());
        }
        let sums = || Ok::<_, Error>(Arc::new(Sums::new(extents)));
        let sums = self.0.get_or_insert_with(&(list, extents), sums)?;
        sums.before(number, add)
    }
}

/// The sums of a list.
struct Sums {
    /// Those in front of extents 0, [`STRIDE`], twice that, as far as the list was read.
    known: Mutex<Vec<u64>>,
}

impl Sums {
    /// How many sums a list has.
    fn count(extents: u64) -> u64 {
        extents.div_ceil(STRIDE).saturating_add(1)
    }

    /// Those of a list that was not read yet.
    fn new(extents: u64) -> Self {
        // What is not written to takes no memory.
        let mut known = Vec::with_capacity(to_usize(Self::count(extents)));
        known.push(0);
        Self {
            known: Mutex::new(known),
        }
    }

    fn before(
        &self,
        number: u64,
        add: impl Fn(Range<u64>) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        let step = number.checked_div(STRIDE).unwrap_or_default();
        let start = step.saturating_mul(STRIDE);
        let sum = self.at(step, &add)?;
        Ok(sum.saturating_add(add(start..number)?))
    }

    /// The sum in front of extent `step * STRIDE`. Whoever needs it, too, waits while the list is read up to there.
    fn at(&self, step: u64, add: &impl Fn(Range<u64>) -> Result<u64, Error>) -> Result<u64, Error> {
        let mut known = self.known.lock();
        loop {
            if let Some(sum) = known.get(to_usize(step)) {
                return Ok(*sum);
            }
            let start = to_u64(known.len()).saturating_sub(1).saturating_mul(STRIDE);
            let last = known.last().copied().unwrap_or_default();
            let next = add(start..start.saturating_add(STRIDE))?;
            known.push(last.saturating_add(next));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Lengths of a list, which are their numbers, and how many were added.
    struct Lengths(Cell<u64>);

    impl Lengths {
        fn add(&self, part: Range<u64>) -> Result<u64, Error> {
            self.0.set(self.0.get() + part.end - part.start);
            Ok(part.sum())
        }

        fn added(&self) -> u64 {
            self.0.take()
        }
    }

    fn sum_before(number: u64) -> u64 {
        number * number.saturating_sub(1) / 2
    }

    #[test]
    fn sums_are_those_of_all_before_and_each_length_is_added_once_for_them() {
        const EXTENTS: u64 = 1000;
        let sums = AllSums::default();
        let lengths = Lengths(Cell::new(0));
        let before = |number| {
            let list = Address::in_image(8);
            let add = |part| lengths.add(part);
            sums.before(list, EXTENTS, number, add).unwrap()
        };
        for number in 0..EXTENTS {
            assert_eq!(before(number), sum_before(number));
            assert!(lengths.added() < 2 * STRIDE, "{number}");
        }
        for number in (0..EXTENTS).rev() {
            assert_eq!(before(number), sum_before(number));
            assert!(lengths.added() < STRIDE, "{number}");
        }
    }

    #[test]
    fn what_could_not_be_read_is_read_again() {
        let sums = AllSums::default();
        let before = |add: &dyn Fn(Range<u64>) -> Result<u64, Error>| {
            sums.before(Address::in_image(8), 100, 99, add)
        };
        let lengths = Lengths(Cell::new(0));
        let damaged = |part: Range<u64>| {
            if part.contains(&70) {
                Err(Error::NotErofs)
            } else {
                lengths.add(part)
            }
        };
        assert!(before(&damaged).is_err());
        assert_eq!(lengths.added(), 2 * STRIDE);
        assert_eq!(before(&|part| lengths.add(part)).unwrap(), sum_before(99));
        assert_eq!(lengths.added(), 99 - 2 * STRIDE);
    }

    /// Of the longest lists, too, at least one is kept.
    #[test]
    fn sums_are_kept_within_a_limit() {
        let sums = AllSums::default();
        let before = |list, extents, number| {
            let add = |part: Range<u64>| Ok(part.end - part.start);
            sums.before(Address::in_image(list), extents, number, add)
        };
        for list in 0..100 {
            assert_eq!(before(list * 4, MAX_EXTENTS, 100).unwrap(), 100);
            assert!(sums.0.weight() <= KEPT_BYTES);
        }
        assert!(!sums.0.is_empty());
        let refused = before(0, MAX_EXTENTS + 1, STRIDE).unwrap_err();
        assert!(refused.to_string().contains("67108865"), "{refused}");
    }
}
