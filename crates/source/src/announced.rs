use std::{collections::VecDeque, ops::Range};

/// The most ranges that are kept: those of all sequential readers that are distinguished.
const MAX_RANGES: usize = 16;

/// Where sequential readers will go, as layers above have [said](crate::ReadAt::will_reach).
#[derive(Debug, Default)]
pub(crate) struct Announced(VecDeque<Range<u64>>);

impl Announced {
    /// Adds a range, in place of the one that it continues.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        self.0
            .retain(|old| range.start < old.start || range.start > old.end);
        if self.0.len() == MAX_RANGES {
            self.0.pop_front();
        }
        self.0.push_back(range);
    }

    /// How far a reader at `offset` will go on; `offset` itself if nobody has said so.
    pub(crate) fn until(&self, offset: u64) -> u64 {
        let here = self.0.iter().filter(|range| range.contains(&offset));
        here.map(|range| range.end).max().unwrap_or(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_replaces_the_one_that_it_continues() {
        let mut announced = Announced::default();
        announced.add(10..20);
        announced.add(100..200);
        announced.add(15..30);
        for (offset, until) in [(5, 5), (12, 12), (15, 30), (30, 30), (150, 200)] {
            assert_eq!(announced.until(offset), until);
        }
    }

    #[test]
    fn the_oldest_ranges_are_forgotten() {
        let mut announced = Announced::default();
        for start in 0..=MAX_RANGES as u64 {
            announced.add(10 * start..10 * start + 5);
        }
        assert_eq!(announced.until(0), 0);
        assert_eq!(announced.until(10), 15);
    }
}
