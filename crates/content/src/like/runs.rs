//! Which bytes are asked for together.

use std::ops::Range;

use verimount_source::GRANULE;

/// How many bytes more than needed are fetched to save requests, in percent.
const SURPLUS: u128 = 15;

/// Gaps of at most so many bytes are closed whatever they add: a request costs about as much.
const NEAR: u64 = 16 << 10;

/// What opening a file fetches at most besides its tree: its beginning, what is near its end, and the granules around the tree.
const OPENING: u64 = 8 * GRANULE;

/// Runs of blocks, in order and without touching each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs(Vec<Range<u64>>);

impl Runs {
    /// Adds blocks behind all others.
    pub fn add(&mut self, blocks: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.end == blocks.start => last.end = blocks.end,
            _ if blocks.is_empty() => {}
            _ => self.0.push(blocks),
        }
    }

    /// How many blocks they have.
    pub fn blocks(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).sum()
    }

    /// The runs.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().cloned()
    }

    /// The runs that are asked for to get these of new content: gaps are closed as long as at most some percent more
    /// bytes come than the blocks and the tree have, opening included.
    pub fn asked_for(&self, block_size: u64, tree_size: u64) -> Self {
        let allowed = self.surplus(block_size, tree_size);
        self.merged(allowed.saturating_sub(OPENING) / block_size, 0)
    }

    /// Those that are asked for to get these of a part of new content, where it is not known what else is needed of it. That part of the
    /// tree is needed, too.
    pub(crate) fn asked_for_within(&self, block_size: u64, tree_size: u64) -> Self {
        let allowed = self.surplus(block_size, tree_size);
        self.merged(allowed / block_size, NEAR / block_size)
    }

    /// How many bytes more than these blocks and the tree may come.
    fn surplus(&self, block_size: u64, tree_size: u64) -> u64 {
        let needed = u128::from(self.blocks()) * u128::from(block_size) + u128::from(tree_size);
        (needed * SURPLUS / 100) as u64
    }

    /// Fewer runs, as the smallest gaps are closed, which have at most this many blocks together, and those that are `near` each other.
    fn merged(&self, mut allowance: u64, near: u64) -> Self {
        let gap = |at: usize| self.0[at + 1].start - self.0[at].end;
        let mut order: Vec<usize> = (0..self.0.len().saturating_sub(1)).collect();
        order.sort_by_key(|at| gap(*at));
        let mut is_closed = vec![false; order.len()];
        for at in order {
            if gap(at) > near.max(allowance) {
                break;
            }
            allowance = allowance.saturating_sub(gap(at));
            is_closed[at] = true;
        }
        let mut merged = Self::default();
        for (number, run) in self.iter().enumerate() {
            if number > 0 && is_closed[number - 1] {
                merged.extend_to(run.end);
            } else {
                merged.0.push(run);
            }
        }
        merged
    }

    fn extend_to(&mut self, end: u64) {
        if let Some(last) = self.0.last_mut() {
            last.end = end;
        }
    }
}

impl Extend<Range<u64>> for Runs {
    fn extend<I: IntoIterator<Item = Range<u64>>>(&mut self, runs: I) {
        runs.into_iter().for_each(|run| self.add(run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(of: &[Range<u64>]) -> Runs {
        let mut runs = Runs::default();
        runs.extend(of.iter().cloned());
        runs
    }

    #[test]
    fn neighbours_are_one_run() {
        let joined = runs(&[0..1, 1..3, 5..6, 6..6, 6..7]);
        assert_eq!(joined.0, [0..3, 5..7]);
        assert_eq!((joined.blocks(), joined.iter().count()), (5, 2));
    }

    #[test]
    fn the_smallest_gaps_are_closed_first() {
        let apart = runs(&[0..1, 11..12, 13..14, 20..21]);
        assert_eq!(apart.merged(0, 0), apart);
        assert_eq!(apart.merged(1, 0).0, [0..1, 11..14, 20..21]);
        assert_eq!(apart.merged(6, 0).0, [0..1, 11..14, 20..21]);
        assert_eq!(apart.merged(7, 0).0, [0..1, 11..21]);
        assert_eq!(apart.merged(u64::MAX, 0).0, vec![0..21]);
        assert_eq!(Runs::default().merged(9, 9), Runs::default());
    }

    #[test]
    fn near_runs_are_joined_whatever_else_is() {
        let apart = runs(&[0..1, 11..12, 13..14, 20..21]);
        assert_eq!(apart.merged(0, 1).0, [0..1, 11..14, 20..21]);
        assert_eq!(apart.merged(0, 6).0, [0..1, 11..21]);
        // They count.
        assert_eq!(apart.merged(9, 6).0, [0..1, 11..21]);
        assert_eq!(apart.merged(17, 6).0, vec![0..21]);
    }
}
