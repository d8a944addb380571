use std::ops::Range;

use verimount_source::Run;

use crate::limits::{FIRST_RUN, MAX_AHEAD, MIN_AHEAD};

/// Unit of fetching and keeping, in bytes: the kernel's read-ahead for ordinary users.
pub(crate) const GRANULE: u64 = 128 << 10;

/// The largest request, in bytes. Requests do not cross multiples of it, so that many machines ask for the
/// same ranges, which caches on the way can answer.
pub(crate) const PART: u64 = 16 << 20;

/// The granules that a range of bytes overlaps.
pub(crate) fn overlapping(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / GRANULE..bytes.end.div_ceil(GRANULE)
}

/// The bytes of some granules of a file of `size` bytes.
pub(crate) fn bytes_of(granules: &Range<u64>, size: u64) -> Range<u64> {
    granules.start * GRANULE..(granules.end * GRANULE).min(size)
}

/// Whether two neighbouring granules must not be in one request.
pub(crate) fn is_part_boundary(granule: u64) -> bool {
    granule.is_multiple_of(PART / GRANULE)
}

/// Where to fetch up to for a reader at `end` that has read `run`: at least `end`.
///
/// The further it has come in order, the larger are the steps, so that there are few requests. A step is a power
/// of two, and ends at a multiple of itself. Readers share what is fetched ahead by what they read: a Merkle tree needs
/// little of it beside the data.
pub(crate) fn horizon(end: u64, run: &Run) -> u64 {
    // What is ahead of a read behind others was fetched for them, and may be gone again. An upper level of a Merkle
    // tree is stored before the lowest, which is read in order.
    if run.len < FIRST_RUN || !run.advances {
        return end;
    }
    let share = u128::from(MAX_AHEAD) * u128::from(run.len) / u128::from(run.of.max(1));
    // It is no larger than `MAX_AHEAD`.
    let ahead = (share as u64).max(MIN_AHEAD).min(run.len.saturating_mul(2));
    let step = match ahead.checked_ilog2() {
        Some(log) => (1 << log).clamp(GRANULE, PART),
        None => GRANULE,
    };
    (end.saturating_add(ahead) / step * step).max(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn granules_cover_their_bytes() {
        assert_eq!(overlapping(&(0..1)), 0..1);
        assert_eq!(overlapping(&(GRANULE - 1..GRANULE + 1)), 0..2);
        assert_eq!(bytes_of(&(1..3), 300_000), GRANULE..300_000);
    }

    #[test]
    fn a_long_run_is_fetched_in_whole_parts() {
        for (end, len, expected) in [
            (100 * MB, 100 * MB, 128 * MB),
            (112 * MB - 1, 100 * MB, 128 * MB),
            (112 * MB, 100 * MB, 144 * MB),
            (2 * MB, MB, 4 * MB),
            (u64::MAX, MB, u64::MAX),
        ] {
            let run = Run {
                len,
                of: len,
                advances: true,
            };
            assert_eq!(horizon(end, &run), expected);
        }
    }

    #[test]
    fn nothing_is_fetched_ahead_of_other_reads() {
        for (len, advances) in [(0, true), (FIRST_RUN - 1, true), (100 * MB, false)] {
            let run = Run {
                len,
                of: len,
                advances,
            };
            assert_eq!(horizon(100 * MB + 1, &run), 100 * MB + 1);
        }
    }

    #[test]
    fn readers_share_what_is_fetched_ahead() {
        for (of, expected) in [(1000 * MB, 128 * MB), (10_000 * MB, 102 * MB)] {
            let run = Run {
                len: 999 * MB,
                of,
                advances: true,
            };
            assert_eq!(horizon(100 * MB, &run), expected);
        }
    }
}
