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

    /// A time of `stat`. The kernel gives no nanoseconds of a second or more.
    pub fn from_stat(seconds: i64, nanoseconds: i64) -> Self {
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
        Self::new(seconds, nanoseconds).unwrap_or(Self::EPOCH)
    }

    /// A decimal number of seconds since the beginning of 1970, negative before it. What is below a nanosecond is
    /// left out.
    pub fn from_decimal(text: &str) -> Option<Self> {
        let (is_negative, number) = match text.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, text),
        };
        let (seconds, places) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(seconds) || !is_number(places) {
            return None;
        }
        let seconds: i64 = seconds.parse().ok()?;
        let nanoseconds: u32 = format!("{places:0<9}").get(..9)?.parse().ok()?;
        match (is_negative, nanoseconds) {
            (false, _) => Self::new(seconds, nanoseconds),
            (true, 0) => Self::new(-seconds, 0),
            // Nanoseconds count from the second before.
            (true, _) => Self::new(-seconds - 1, 1_000_000_000 - nanoseconds),
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

    #[test]
    fn times_have_seconds_and_decimal_places() {
        for (text, seconds, nanoseconds) in [
            ("0", 0, 0),
            ("1700000000", 1_700_000_000, 0),
            ("1.5", 1, 500_000_000),
            ("1.", 1, 0),
            ("1.0000000019", 1, 1),
            ("-1", -1, 0),
            ("-1.5", -2, 500_000_000),
            ("-0.25", -1, 750_000_000),
            ("9223372036854775807.9", i64::MAX, 900_000_000),
            ("-9223372036854775807.5", i64::MIN, 500_000_000),
        ] {
            let expected = Timestamp::new(seconds, nanoseconds);
            assert_eq!(Timestamp::from_decimal(text), expected, "{text}");
        }
        for wrong in [
            "",
            "-",
            ".5",
            "+1",
            "1e3",
            "--1",
            "1.-5",
            "today",
            "9223372036854775808",
        ] {
            assert_eq!(Timestamp::from_decimal(wrong), None, "{wrong}");
        }
    }
}
