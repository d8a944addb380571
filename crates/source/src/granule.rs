use std::ops::Range;

/// The unit in which bytes of far sources are fetched and kept: the kernel's read-ahead for ordinary users, in bytes.
pub const GRANULE: u64 = 128 << 10;

/// The granules that a range of bytes overlaps.
pub fn granules(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / GRANULE..bytes.end.div_ceil(GRANULE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn granules_cover_their_bytes() {
        assert_eq!(granules(&(0..1)), 0..1);
        assert_eq!(granules(&(GRANULE - 1..GRANULE + 1)), 0..2);
    }
}
