use std::ops::Range;

/// A set of small numbers, stored as a bit array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Box<[u64]>,
}

impl Bits {
    /// An empty set of numbers below `len`.
    pub(crate) fn new(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64)].into(),
        }
    }

    pub(crate) fn insert(&mut self, range: Range<usize>) {
        for (word, mask) in masks(range) {
            self.words[word] |= mask;
        }
    }

    pub(crate) fn remove(&mut self, range: Range<usize>) {
        for (word, mask) in masks(range) {
            self.words[word] &= !mask;
        }
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 == 1
    }

    pub(crate) fn contains_all(&self, range: Range<usize>) -> bool {
        masks(range).all(|(word, mask)| self.words[word] & mask == mask)
    }

    /// The bits of a range in little-endian order. `range` must start and end at multiples of 64.
    pub(crate) fn to_le_bytes(&self, range: Range<usize>) -> Vec<u8> {
        debug_assert!(range.start.is_multiple_of(64) && range.end.is_multiple_of(64));
        let words = &self.words[range.start / 64..range.end / 64];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The set with these bits, in little-endian order. The length must be a multiple of 8 bytes.
    pub(crate) fn from_le_bytes(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks();
        debug_assert!(rest.is_empty());
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        Self {
            words: words.collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }
}

/// The index of each word that holds numbers of a range, and the mask of those numbers in it.
fn masks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let last = range.end.div_ceil(64);
    (range.start / 64..last).filter_map(move |word| {
        let start = range.start.saturating_sub(word * 64);
        let end = (range.end - word * 64).min(64);
        (start < end).then(|| (word, (u64::MAX >> (64 - (end - start))) << start))
    })
}

/// The maximal runs of numbers in `range` for which `is_in` holds.
pub(crate) fn runs(
    range: Range<usize>,
    is_in: impl Fn(usize) -> bool,
) -> impl Iterator<Item = Range<usize>> {
    let mut next = range.start;
    std::iter::from_fn(move || {
        let start = (next..range.end).find(|&number| is_in(number))?;
        let end = (start..range.end)
            .find(|&number| !is_in(number))
            .unwrap_or(range.end);
        next = end;
        Some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arbtest::arbtest;

    use super::*;

    #[test]
    fn a_set_is_a_set() {
        const LEN: usize = 200;
        arbtest(|u| {
            let mut bits = Bits::new(LEN);
            let mut model = BTreeSet::new();
            for _ in 0..u.int_in_range(0..=19)? {
                let (start, end) = (u.choose_index(LEN)?, u.choose_index(LEN)?);
                if u.arbitrary()? {
                    bits.insert(start..end);
                    model.extend(start..end);
                } else {
                    bits.remove(start..end);
                    model.retain(|number| !(start..end).contains(number));
                }
            }
            let start = u.choose_index(LEN)?;
            let range = start..u.choose_index(LEN)?.max(start);
            assert_eq!(bits.is_empty(), model.is_empty());
            assert_eq!(
                bits.contains_all(range.clone()),
                range.clone().all(|number| model.contains(&number))
            );
            let members = runs(range.clone(), |number| bits.contains(number)).flatten();
            let expected = range.filter(|number| model.contains(number));
            assert_eq!(members.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            Ok(())
        })
        .size_max(64);
    }
}
