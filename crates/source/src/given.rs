use std::{mem, ops::Range};

/// Who gave which part of what was [fetched](crate::Fetch::fetch). Nobody is named by a source that has no choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given(Vec<(Range<u64>, Giver)>);

/// Who gave bytes: a number whose meaning only the source knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Giver(pub u64);

impl Given {
    /// All of a range, by one giver.
    pub fn by(range: Range<u64>, giver: Giver) -> Self {
        Self(vec![(range, giver)])
    }

    /// Adds what was given later. It replaces what was given of the same ranges before.
    pub fn add(&mut self, later: Self) {
        for (range, giver) in later.0 {
            self.forget(&range);
            self.0.push((range, giver));
        }
    }

    fn forget(&mut self, range: &Range<u64>) {
        let is_apart = |part: &Range<u64>| part.end <= range.start || range.end <= part.start;
        if self.0.iter().all(|(part, _)| is_apart(part)) {
            return;
        }
        let parts = mem::take(&mut self.0).into_iter();
        let left = parts.flat_map(|(part, giver)| {
            let before = part.start..part.end.min(range.start);
            let behind = part.start.max(range.end)..part.end;
            [before, behind].map(|left| (left, giver))
        });
        self.0 = left.filter(|(part, _)| !part.is_empty()).collect();
    }

    /// All who gave something.
    pub fn givers(&self) -> impl Iterator<Item = Giver> {
        self.0.iter().map(|(_, giver)| *giver)
    }

    /// Who gave which parts of `range`.
    pub fn within(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, Giver)> {
        let parts = self.0.iter().map(|(given, giver)| {
            (
                given.start.max(range.start)..given.end.min(range.end),
                *giver,
            )
        });
        parts.filter(|(part, _)| !part.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_range_have_their_givers() {
        let mut given = Given::by(0..10, Giver(1));
        given.add(Given::by(10..20, Giver(2)));
        let within = |range| given.within(&range).collect::<Vec<_>>();
        assert_eq!(within(5..15), [(5..10, Giver(1)), (10..15, Giver(2))]);
        assert_eq!(within(12..13), [(12..13, Giver(2))]);
        assert_eq!(within(20..30), []);
    }

    #[test]
    fn what_was_given_last_counts() {
        let mut given = Given::by(0..30, Giver(1));
        given.add(Given::by(10..20, Giver(2)));
        assert_eq!(
            given.within(&(5..25)).collect::<Vec<_>>(),
            [(5..10, Giver(1)), (20..25, Giver(1)), (10..20, Giver(2))]
        );
        given.add(Given::by(0..30, Giver(3)));
        assert_eq!(given, Given::by(0..30, Giver(3)));
    }
}
