use std::ops::Range;

/// The unit in which bytes of far sources are fetched and kept: the kernel's read-ahead for ordinary users, in bytes.
pub const GRANULE: u64 = 128 << 10;

/// The granules that a range of bytes overlaps.
pub fn granules(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / GRANULE..bytes.end.div_ceil(GRANULE)
}

/// The bytes of those granules all of which are in a range, of something with `size` bytes: the last one may be short.
pub fn whole_granules(bytes: &Range<u64>, size: u64) -> Range<u64> {
    let start = bytes.start.next_multiple_of(GRANULE).min(bytes.end);
    let end = if bytes.end == size {
        bytes.end
    } else {
        (bytes.end / GRANULE * GRANULE).max(start)
    };
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_granules_end_where_others_begin() {
        const SIZE: u64 = 3 * GRANULE + 10;
        for (bytes, whole) in [
            (0..SIZE, 0..SIZE),
            (1..SIZE - 1, GRANULE..3 * GRANULE),
            (1..GRANULE - 1, GRANULE - 1..GRANULE - 1),
            (GRANULE + 1..2 * GRANULE + 1, 2 * GRANULE..2 * GRANULE),
            (3 * GRANULE..SIZE, 3 * GRANULE..SIZE),
            (3 * GRANULE + 1..SIZE, SIZE..SIZE),
        ] {
            assert_eq!(whole_granules(&bytes, SIZE), whole, "{bytes:?}");
        }
    }

    #[test]
    fn granules_cover_their_bytes() {
        assert_eq!(granules(&(0..1)), 0..1);
        assert_eq!(granules(&(GRANULE - 1..GRANULE + 1)), 0..2);
    }
}
