use std::fmt;

use verimount::Timestamp;

const SECONDS_PER_DAY: i64 = 86_400;

/// The days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

/// The days of 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;

/// Shows a time in UTC, as `ls --time-style=full-iso` does.
pub(super) struct Date(pub(super) Timestamp);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanoseconds) = (self.0.seconds(), self.0.nanoseconds());
        let (year, month, day) = civil(seconds.div_euclid(SECONDS_PER_DAY));
        let second = seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} ")?;
        write!(
            f,
            "{hour:02}:{minute:02}:{second:02}.{nanoseconds:09} +0000"
        )
    }
}

/// Year, month and day of a day that is counted from 1970-01-01. Years begin in March here, so that the leap
/// day is their last.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + DAYS_TO_1970;
    let era = day.div_euclid(DAYS_PER_ERA);
    let day = day.rem_euclid(DAYS_PER_ERA);
    // Without the leap days before it: one in 4 years, not in 100, but in 400.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // The months from March on have 31, 30, 31, 30 and 31 days, and then the same again.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, years) = match month {
        0..10 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    (year + era * 400 + years, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_827_696, "2000-02-29 12:34:56"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (-2_208_988_800, "1900-01-01 00:00:00"),
            (253_402_300_800, "10000-01-01 00:00:00"),
        ] {
            let time = Timestamp::new(seconds, 7).unwrap();
            let expected = format!("{expected}.000000007 +0000");
            assert_eq!(Date(time).to_string(), expected);
        }
        for seconds in [i64::MIN, i64::MAX] {
            assert!(
                !Date(Timestamp::new(seconds, 0).unwrap())
                    .to_string()
                    .is_empty()
            );
        }
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let is_leap = |year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let len = |year, month| match month {
            2 if is_leap(year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        for day in -200_000..200_000 {
            let next = match civil(day) {
                (year, 12, 31) => (year + 1, 1, 1),
                (year, month, last) if last == len(year, month) => (year, month + 1, 1),
                (year, month, day) => (year, month, day + 1),
            };
            assert_eq!(civil(day + 1), next);
        }
    }
}
