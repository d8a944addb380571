//! Times in seconds since the beginning of 1970.

use std::ffi::OsStr;

use verimount::Timestamp;

/// Parses seconds with up to 9 decimal places, negative before 1970.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    time(text).ok_or_else(|| {
        "a time is a number of seconds since 1970, with up to 9 decimal places".to_owned()
    })
}

/// Parses whole seconds.
pub(crate) fn parse_epoch(text: &OsStr) -> Option<Timestamp> {
    let text = text.to_str()?;
    time(text).filter(|_| !text.contains('.'))
}

fn time(text: &str) -> Option<Timestamp> {
    let (is_negative, number) = match text.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, text),
    };
    let (seconds, fraction) = match number.split_once('.') {
        Some((seconds, fraction)) => (seconds, Some(fraction)),
        None => (number, None),
    };
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || fraction.is_some_and(|digits| !is_number(digits) || digits.is_empty())
    {
        return None;
    }
    let seconds: i64 = seconds.parse().ok()?;
    let fraction = fraction.unwrap_or_default();
    let nanoseconds: u32 = match fraction.len() {
        0..=9 => format!("{fraction:0<9}").parse().ok()?,
        _ => return None,
    };
    match (is_negative, nanoseconds) {
        (false, _) => Timestamp::new(seconds, nanoseconds),
        (true, 0) => Timestamp::new(-seconds, 0),
        // Nanoseconds count from the second before.
        (true, _) => Timestamp::new(-seconds - 1, 1_000_000_000 - nanoseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_seconds_and_a_fraction() {
        for (text, seconds, nanoseconds) in [
            ("0", 0, 0),
            ("1700000000", 1_700_000_000, 0),
            ("1.5", 1, 500_000_000),
            ("1.000000001", 1, 1),
            ("-1", -1, 0),
            ("-1.5", -2, 500_000_000),
            ("-0.25", -1, 750_000_000),
            ("9223372036854775807", i64::MAX, 0),
        ] {
            let expected = Timestamp::new(seconds, nanoseconds).unwrap();
            assert_eq!(parse_time(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "-",
            ".5",
            "1.",
            "1.0000000001",
            "+1",
            "1e3",
            "today",
            "--1",
            "9223372036854775808",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_epoch_has_whole_seconds() {
        assert_eq!(parse_epoch("5".as_ref()), Timestamp::new(5, 0));
        for text in ["", "1.5", "now"] {
            assert_eq!(parse_epoch(text.as_ref()), None, "{text}");
        }
    }
}
