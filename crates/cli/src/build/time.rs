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
    let places = text.split_once('.').map(|(_, places)| places.len());
    match places {
        None | Some(1..=9) => Timestamp::from_decimal(text),
        Some(_) => None,
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
