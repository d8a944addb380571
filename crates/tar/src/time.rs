use verimount_tree::Timestamp;

use crate::number::decimal;

/// A time as it is in extended headers: seconds since 1970, negative before, with decimal places. What is below a
/// nanosecond is left out.
pub(crate) fn parse(text: &[u8]) -> Option<Timestamp> {
    let (is_negative, number) = match text.strip_prefix(b"-") {
        Some(number) => (true, number),
        None => (false, text),
    };
    let mut parts = number.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
    let nanoseconds = nanoseconds(parts.next().unwrap_or_default())?;
    match (is_negative, nanoseconds) {
        (false, _) => Timestamp::new(seconds, nanoseconds),
        (true, 0) => Timestamp::new(seconds.checked_neg()?, 0),
        // Nanoseconds count from the second before.
        (true, _) => Timestamp::new(
            seconds.checked_neg()?.checked_sub(1)?,
            1_000_000_000_u32.checked_sub(nanoseconds)?,
        ),
    }
}

/// The value of decimal places.
fn nanoseconds(places: &[u8]) -> Option<u32> {
    if !places.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nine = places.iter().chain(&[b'0'; 9]).take(9);
    let digits: Vec<u8> = nine.copied().collect();
    u32::try_from(decimal(&digits)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            let expected = Timestamp::new(seconds, nanoseconds);
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
        for wrong in ["", "-", ".5", "1e3", "--1", "1.-5", "9223372036854775808"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
