use std::ops::Range;

use verimount_source::{GRANULE, LARGEST_STEP};

/// The largest request, in bytes. Requests do not cross multiples of it.
pub(crate) const PART: u64 = LARGEST_STEP;

/// The bytes of some granules of a file of `size` bytes: at most [`MAX_SIZE`](crate::limits::MAX_SIZE), as they always are.
pub(crate) fn bytes_of(granules: &Range<u64>, size: u64) -> Range<u64> {
    granules.start * GRANULE..(granules.end * GRANULE).min(size)
}

const _: () = assert!(PART.is_multiple_of(GRANULE));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_granule_may_be_short() {
        assert_eq!(bytes_of(&(1..3), 300_000), GRANULE..300_000);
    }
}
