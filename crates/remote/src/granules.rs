use std::ops::Range;

use verimount_source::Run;

use crate::limits::{MAX_AHEAD, MIN_AHEAD};

/// Unit of fetching and keeping, in bytes: the kernel's read-ahead for ordinary users.
pub(crate) const GRANULE: u64 = 128 << 10;

/// The largest request, in bytes. Requests do not cross multiples of it, so that many machines ask for the
/// same ranges, which caches on the way can answer.
pub(crate) const PART: u64 = 16 << 20;

/// The granules that a range of bytes overlaps.
pub(crate) fn overlapping(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / GRANULE..bytes.end.div_ceil(GRANULE)
}

/// The bytes of some granules of a file of `size` bytes: at most [`MAX_SIZE`](crate::limits::MAX_SIZE), as they always are.
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
/// little of it beside the data. Where another one began, it has read already.
pub(crate) fn horizon(end: u64, run: &Run) -> u64 {
    // What is ahead of a read behind others was fetched for them, and may be gone again. An upper level of a Merkle
    // tree is stored before the lowest, which is read in order.
    if !run.is_sequential() || !run.advances {
        return end;
    }
    let share = u128::from(MAX_AHEAD) * u128::from(run.len) / u128::from(run.of.max(1));
    // It is no larger than `MAX_AHEAD`.
    let ahead = (share as u64).max(MIN_AHEAD).min(run.len.saturating_mul(2));
    let step = match ahead.checked_ilog2() {
        Some(log) => (1 << log).clamp(GRANULE, PART),
        None => GRANULE,
    };
    let horizon = end.saturating_add(ahead) / step * step;
    horizon.min(run.until).max(end)
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

    /// The run of a reader who is alone.
    fn run(len: u64) -> Run {
        Run {
            len,
            of: len,
            advances: true,
            until: u64::MAX,
        }
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
            assert_eq!(horizon(end, &run(len)), expected);
        }
    }

    #[test]
    fn nothing_is_fetched_ahead_of_other_reads() {
        let end = 100 * MB + 1;
        let overtaken = Run {
            advances: false,
            ..run(100 * MB)
        };
        for run in [run(0), run(Run::SEQUENTIAL - 1), overtaken] {
            assert_eq!(horizon(end, &run), end);
        }
    }

    #[test]
    fn what_another_stream_has_read_is_not_fetched_ahead() {
        for until in [100 * MB, 101 * MB] {
            let run = Run {
                until,
                ..run(100 * MB)
            };
            assert_eq!(horizon(100 * MB, &run), until);
        }
    }

    #[test]
    fn readers_share_what_is_fetched_ahead() {
        for (of, expected) in [(1000 * MB, 128 * MB), (10_000 * MB, 102 * MB)] {
            let run = Run {
                of,
                ..run(999 * MB)
            };
            assert_eq!(horizon(100 * MB, &run), expected);
        }
    }
}
