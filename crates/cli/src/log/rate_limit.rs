use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The maximum number of lines of one kind per period. A process logs only a few kinds at a time: a
/// bad block that is read a million times causes two kinds of lines.
const MAX_LINES: u32 = 40;

/// The length of a period.
const PERIOD: Duration = Duration::from_secs(60);

/// Counts the lines of each kind, and decides which exceed the limit.
pub(super) struct RateLimit<K> {
    kinds: Mutex<HashMap<K, Kind>>,
}

/// The lines of one kind in the period that began at `start`.
struct Kind {
    start: Instant,
    logged: u32,
    left_out: u64,
    message: String,
}

/// Whether a line is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Logged,
    /// The first dropped line of its period.
    FirstLeftOut,
    LeftOut,
}

impl Admission {
    pub(super) fn is_admitted(self) -> bool {
        self == Self::Logged
    }

    pub(super) fn is_first_left_out(self) -> bool {
        self == Self::FirstLeftOut
    }
}

impl<K: Eq + Hash> RateLimit<K> {
    pub(super) fn new() -> Self {
        Self {
            kinds: Mutex::default(),
        }
    }

    /// Decides whether a line of this kind is logged. A new period begins with the first line after
    /// the last period has ended and [`Self::take_left_out_until`] has reported its dropped lines.
    pub(super) fn admit(
        &self,
        kind: K,
        now: Instant,
        message: impl FnOnce() -> String,
    ) -> Admission {
        let mut kinds = self.kinds();
        let kind = kinds.entry(kind).or_insert_with(|| Kind::new(now));
        if kind.left_out == 0 && now >= kind.start + PERIOD {
            *kind = Kind::new(now);
        }
        if kind.logged < MAX_LINES {
            kind.logged += 1;
            return Admission::Logged;
        }
        kind.left_out += 1;
        if kind.left_out > 1 {
            return Admission::LeftOut;
        }
        kind.message = message();
        Admission::FirstLeftOut
    }

    /// The number of dropped lines of each kind in ended periods, with their message. Starts new
    /// periods for these kinds.
    pub(super) fn take_left_out_until(&self, now: Instant) -> Vec<(String, u64)> {
        self.take(|kind| now >= kind.start + PERIOD, now)
    }

    /// The same for all periods, ended or not.
    pub(super) fn take_left_out(&self) -> Vec<(String, u64)> {
        self.take(|_| true, Instant::now())
    }

    /// The end of the next period with dropped lines.
    pub(super) fn next_report(&self) -> Option<Instant> {
        let kinds = self.kinds();
        let ends = kinds.values().filter(|kind| kind.left_out > 0);
        ends.map(|kind| kind.start + PERIOD).min()
    }

    fn take(&self, is_over: impl Fn(&Kind) -> bool, now: Instant) -> Vec<(String, u64)> {
        let mut kinds = self.kinds();
        kinds
            .values_mut()
            .filter(|kind| kind.left_out > 0 && is_over(kind))
            .map(|kind| std::mem::replace(kind, Kind::new(now)))
            .map(|kind| (kind.message, kind.left_out))
            .collect()
    }

    // Nothing can panic between changes that belong together.
    fn kinds(&self) -> MutexGuard<'_, HashMap<K, Kind>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kind {
    fn new(start: Instant) -> Self {
        Self {
            start,
            logged: 0,
            left_out: 0,
            message: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_limit_and_an_exact_count() {
        let limit = RateLimit::new();
        let start = Instant::now();
        let line = |kind: char, now| limit.admit(kind, now, || kind.to_string());
        for _ in 0..MAX_LINES {
            assert_eq!(line('a', start), Admission::Logged);
        }
        assert_eq!(limit.next_report(), None);
        assert_eq!(line('a', start), Admission::FirstLeftOut);
        for _ in 0..999 {
            assert_eq!(line('a', start + PERIOD / 2), Admission::LeftOut);
        }
        assert_eq!(line('b', start), Admission::Logged);
        assert_eq!(limit.next_report(), Some(start + PERIOD));
        assert_eq!(limit.take_left_out_until(start + PERIOD / 2), []);

        // Lines that arrive before the report are counted in it, even after the period's end.
        let end = start + PERIOD;
        assert_eq!(line('a', end), Admission::LeftOut);
        assert_eq!(limit.take_left_out_until(end), [("a".to_owned(), 1001)]);
        assert_eq!(limit.next_report(), None);
        assert_eq!(line('a', end), Admission::Logged);
    }

    #[test]
    fn few_lines_are_all_logged() {
        let limit = RateLimit::new();
        let start = Instant::now();
        for minute in 0..10 {
            for _ in 0..MAX_LINES {
                let logged = limit.admit((), start + PERIOD * minute, String::new);
                assert_eq!(logged, Admission::Logged);
            }
        }
        assert_eq!(limit.take_left_out(), []);
    }
}
