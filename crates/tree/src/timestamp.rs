/// A point in time, to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    nanoseconds: u32,
}

impl Timestamp {
    /// The beginning of 1970, UTC.
    pub const EPOCH: Self = Self {
        seconds: 0,
        nanoseconds: 0,
    };

    /// `seconds` since the beginning of 1970, negative before it, plus `nanoseconds`; `None` for 10⁹
    /// nanoseconds or more.
    pub const fn new(seconds: i64, nanoseconds: u32) -> Option<Self> {
        match nanoseconds {
            0..1_000_000_000 => Some(Self {
                seconds,
                nanoseconds,
            }),
            _ => None,
        }
    }

    /// Whole seconds since the beginning of 1970; negative before it.
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds after the whole second: less than 10⁹.
    pub const fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_less_than_a_billion_nanoseconds() {
        let last = Timestamp::new(-1, 999_999_999).unwrap();
        assert_eq!((last.seconds(), last.nanoseconds()), (-1, 999_999_999));
        assert!(last < Timestamp::EPOCH);
        assert_eq!(Timestamp::new(0, 0), Some(Timestamp::EPOCH));
        for nanoseconds in [1_000_000_000, u32::MAX] {
            assert_eq!(Timestamp::new(0, nanoseconds), None);
        }
    }
}
