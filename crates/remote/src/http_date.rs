/// Parses a date of HTTP, such as `Sun, 06 Nov 1994 08:49:37 GMT`, to seconds since 1970. Of the formats of
/// RFC 9110, 5.6.7, only this one is still generated.
pub(crate) fn parse_http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, date) = text.trim().split_once(", ")?;
    let mut fields = date.split(' ');
    let day = number(fields.next()?, 2, 1..=31)?;
    let month = fields.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year = number(fields.next()?, 4, 1970..=9999)?;
    let mut time = fields.next()?.split(':');
    let hour = number(time.next()?, 2, 0..=23)?;
    let minute = number(time.next()?, 2, 0..=59)?;
    // There are leap seconds.
    let second = number(time.next()?, 2, 0..=60)?;
    let is_whole = time.next().is_none() && fields.eq(["GMT"]);
    let seconds = (hour * 60 + minute) * 60 + second;
    is_whole.then_some(days_since_1970(year, month, day) * 86400 + seconds)
}

fn number(text: &str, digits: usize, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok())??;
    range.contains(&number).then_some(number)
}

/// Of the Gregorian calendar. Years are counted from March, so that a leap day ends its year.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    /// From 1 March of the year 0 to 1 January 1970.
    const EPOCH: u64 = 719_468;
    let year = year - u64::from(month <= 2);
    let month = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Tue, 29 Feb 2000 23:59:59 GMT", Some(951_868_799)),
            ("Sun, 22 Nov 2026 00:00:00 GMT", Some(1_795_305_600)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("Sun Nov  6 08:49:37 1994", None),
            ("Sun, 6 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 UTC", None),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT x", None),
            ("Sun, 06 Nov +199 08:49:37 GMT", None),
            ("", None),
        ] {
            assert_eq!(parse_http_date(text), expected, "{text}");
        }
    }
}
