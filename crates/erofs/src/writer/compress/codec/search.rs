//! How much input to compress, where only trying tells how long the result is.

/// How many times an input is compressed. Then the best result counts.
const MAX_TRIALS: u32 = 8;

/// A result saves space if it is at least this part shorter than its input.
const LEAST_SAVING: usize = 64;

/// A compression: so many bytes of the input became so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) taken: usize,
    pub(super) len: usize,
}

/// Looks for the input whose result fills whole blocks of a cluster, but for a little.
///
/// The length of a result is nearly proportional to that of its input, so from a trial or two the next one is estimated.
/// A cluster may have fewer blocks than it could: the nearest number of blocks is aimed at, which is found soonest,
/// unless it is less than half.
#[derive(Debug)]
pub(super) struct Search {
    block: usize,
    /// Blocks of a cluster.
    blocks: usize,
    /// How much of the last block may stay empty, in bytes.
    slack: usize,
    /// The length of the whole input.
    most: usize,
    trials: u32,
    last: Option<Trial>,
    /// The one that stores most of the input in each block.
    best: Option<Trial>,
    /// The shortest input that does not fit.
    over: Option<usize>,
}

impl Search {
    /// For clusters of this many bytes, and an input of `most`, which is not empty.
    pub(super) fn new(block: usize, cluster: usize, most: usize) -> Self {
        Self {
            block,
            blocks: cluster / block,
            slack: (cluster / 512).clamp(block / 256, block / 8),
            most,
            trials: 0,
            last: None,
            best: None,
            over: None,
        }
    }

    /// How much to compress first, if so much is expected to fit.
    pub(super) fn first(&self, guess: usize) -> usize {
        // What would be left over is not worth a cluster.
        if self.most <= guess + guess / 8 {
            self.most
        } else {
            guess
        }
    }

    /// Takes the result of a trial; returns how much to compress next, if that is worth it.
    pub(super) fn judge(&mut self, trial: Trial) -> Option<usize> {
        self.trials += 1;
        if trial.len + trial.len / LEAST_SAVING >= trial.taken {
            return None;
        }
        let blocks = trial.len.div_ceil(self.block);
        if blocks > self.blocks {
            self.over = Some(self.over.map_or(trial.taken, |over| over.min(trial.taken)));
        } else {
            if self.best.is_none_or(|best| self.is_better(trial, best)) {
                self.best = Some(trial);
            }
            let is_full = blocks * self.block - trial.len <= self.slack;
            if trial.taken == self.most || is_full && blocks * 2 > self.blocks {
                return None;
            }
        }
        let next = self.estimate(trial);
        self.last = Some(trial);
        let is_over = self.trials >= MAX_TRIALS && self.best.is_some();
        Some(next).filter(|next| *next != trial.taken && !is_over && self.trials < 2 * MAX_TRIALS)
    }

    /// Whether the trial with this input was the last one and is the best.
    pub(super) fn is_best(&self, taken: usize) -> bool {
        self.best.is_some_and(|best| best.taken == taken)
    }

    /// The best trial, if any fits and saves space.
    pub(super) fn best(&self) -> Option<Trial> {
        self.best
    }

    fn is_better(&self, trial: Trial, best: Trial) -> bool {
        let blocks = |trial: Trial| trial.len.div_ceil(self.block);
        trial.taken * blocks(best) > best.taken * blocks(trial)
    }

    /// How much input probably fills the blocks that are aimed at.
    fn estimate(&self, trial: Trial) -> usize {
        let nearest = (trial.len + self.block / 2) / self.block;
        let blocks = if nearest * 2 > self.blocks {
            nearest.min(self.blocks)
        } else {
            self.blocks
        };
        // More often than not it then fits.
        let goal = blocks * self.block - self.slack / 2;
        let (input, output) = match self.last {
            Some(last)
                if (last.taken > trial.taken) == (last.len > trial.len)
                    && last.len != trial.len =>
            {
                (
                    last.taken.abs_diff(trial.taken),
                    last.len.abs_diff(trial.len),
                )
            }
            _ => (trial.taken, trial.len),
        };
        let step = goal.abs_diff(trial.len) * input / output.max(1);
        let next = if goal > trial.len {
            trial.taken.saturating_add(step)
        } else {
            trial.taken.saturating_sub(step)
        };
        let most = self.over.map_or(self.most, |over| over - 1);
        next.clamp(1, most.max(1))
    }
}

#[cfg(test)]
mod tests {
    use arbtest::arbtest;
    use verimount_testkit::several;

    use super::*;

    const BLOCK: usize = 4096;

    /// Searches with results of these lengths; the best, and the number of trials.
    fn search(
        blocks: usize,
        most: usize,
        guess: usize,
        len: impl Fn(usize) -> usize,
    ) -> (Option<Trial>, u32) {
        let mut search = Search::new(BLOCK, blocks * BLOCK, most);
        let mut next = Some(search.first(guess));
        while let Some(taken) = next {
            assert!((1..=most).contains(&taken), "{taken}");
            next = search.judge(Trial {
                taken,
                len: len(taken),
            });
        }
        (search.best(), search.trials)
    }

    #[test]
    fn a_steady_input_is_found_at_once() {
        for blocks in [1, 16, 256] {
            for divisor in 2..50 {
                let room = blocks * BLOCK;
                let (best, trials) = search(blocks, 100 << 20, room * 5 / 2, |taken| {
                    12 + taken / divisor
                });
                let best = best.unwrap();
                let used = best.len.div_ceil(BLOCK) * BLOCK;
                assert!(used - best.len <= (room / 512).clamp(16, 512), "{best:?}");
                assert!(used * 2 > room && trials <= 3, "{best:?} {trials}");
            }
        }
    }

    #[test]
    fn an_input_that_fits_is_taken_whole() {
        let (best, trials) = search(16, 100_000, 163_840, |taken| taken / 10);
        assert_eq!((best.unwrap().taken, trials), (100_000, 1));
        let (best, trials) = search(16, 1 << 20, 163_840, |taken| 12 + taken / 1000);
        assert_eq!((best.unwrap().taken, trials), (1 << 20, 2));
    }

    #[test]
    fn noise_is_given_up_at_once() {
        let (best, trials) = search(16, 1 << 20, 163_840, |taken| taken + 20);
        assert_eq!((best, trials), (None, 1));
    }

    #[test]
    fn a_search_ends_with_what_fits() {
        arbtest(|u| {
            let blocks = if u.arbitrary()? {
                1
            } else {
                u.int_in_range(1..=39)?
            };
            let most = u.int_in_range(5000..=999_999)?;
            // Parts of the input that are compressed differently.
            let parts = several(u, 1..=39, |u| {
                Ok((u.int_in_range(1..=199)?, u.int_in_range(1..=199)?))
            })?;
            let len = |taken: usize| {
                let mut left = taken;
                let mut sum = 12;
                for (len, percent) in parts.iter().cycle() {
                    let now = left.min(len * 500);
                    sum += now * percent.min(&99) / 100;
                    left -= now;
                    if left == 0 {
                        break;
                    }
                }
                sum
            };
            let (best, trials) = search(blocks, most, blocks * BLOCK * 5 / 2, len);
            assert!(trials <= 2 * MAX_TRIALS);
            if let Some(best) = best {
                assert_eq!(best.len, len(best.taken));
                assert!(best.len <= blocks * BLOCK && best.taken <= most);
            }
            Ok(())
        })
        .size_max(128);
    }
}
