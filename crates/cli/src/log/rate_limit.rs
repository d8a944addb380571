use std::{
    collections::HashMap,
    hash::Hash,
    mem,
    time::{Duration, Instant},
};

use verimount_sync::Mutex;

/// The maximum number of lines of one kind per period. A process logs only a few kinds at a time: a
/// bad block that is read a million times causes two kinds of lines.
const MAX_LINES: u32 = 40;

/// The length of a period.
const PERIOD: Duration = Duration::from_secs(60);

/// The most kinds that are remembered, of some 200 bytes each: as many as four users cause who are denied and
/// audited by every rule of the largest policy, or two thousand users with one rule each.
const MAX_KINDS: usize = 8192;

/// Counts the lines of each kind, and decides which exceed the limit.
///
/// If there are too many kinds, those that began first are forgotten, and get their number of lines again.
/// Then more lines than usual are logged, but none is left out because of lines of other kinds.
pub(super) struct RateLimit<K>(Mutex<State<K>>);

struct State<K> {
    kinds: HashMap<K, Kind>,
    /// The dropped lines of kinds that were forgotten before they were reported.
    forgotten: u64,
}

/// Dropped lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut<K> {
    pub(super) count: u64,
    /// Their kind and message; `None` for those of kinds that were forgotten.
    pub(super) of: Option<(K, String)>,
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

impl<K: Clone + Eq + Hash> RateLimit<K> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            kinds: HashMap::new(),
            forgotten: 0,
        }))
    }

    /// Decides whether a line of this kind is logged. A new period begins with the first line after
    /// the last period has ended and [`Self::take_left_out_until`] has reported its dropped lines.
    pub(super) fn admit(
        &self,
        kind: K,
        now: Instant,
        message: impl FnOnce() -> String,
    ) -> Admission {
        let mut state = self.0.lock();
        if state.kinds.len() >= MAX_KINDS && !state.kinds.contains_key(&kind) {
            state.forget(now);
        }
        let kind = state.kinds.entry(kind).or_insert_with(|| Kind::new(now));
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

    /// The dropped lines of each kind in ended periods. Starts new periods for these kinds.
    pub(super) fn take_left_out_until(&self, now: Instant) -> Vec<LeftOut<K>> {
        self.take(|kind| now >= kind.start + PERIOD, now)
    }

    /// The dropped lines of each kind in all periods, ended or not. Starts new periods for these kinds.
    pub(super) fn take_left_out(&self) -> Vec<LeftOut<K>> {
        self.take(|_| true, Instant::now())
    }

    /// The end of the next period with dropped lines.
    pub(super) fn next_report(&self) -> Option<Instant> {
        let state = self.0.lock();
        let ends = state.kinds.values().filter(|kind| kind.left_out > 0);
        ends.map(|kind| kind.start + PERIOD).min()
    }

    fn take(&self, is_over: impl Fn(&Kind) -> bool, now: Instant) -> Vec<LeftOut<K>> {
        let mut state = self.0.lock();
        let forgotten = Some(mem::take(&mut state.forgotten)).filter(|&count| count > 0);
        let forgotten = forgotten.map(|count| LeftOut { count, of: None });
        let kinds = state.kinds.iter_mut();
        let due = kinds.filter(|(_, lines)| lines.left_out > 0 && is_over(lines));
        let due = due.map(|(kind, lines)| {
            let lines = mem::replace(lines, Kind::new(now));
            LeftOut {
                count: lines.left_out,
                of: Some((kind.clone(), lines.message)),
            }
        });
        due.chain(forgotten).collect()
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Forgets kinds whose period is over and has nothing to report. If this does not halve their number,
    /// those that began first as well.
    fn forget(&mut self, now: Instant) {
        self.kinds
            .retain(|_, kind| kind.left_out > 0 || now < kind.start + PERIOD);
        let mut starts: Vec<_> = self.kinds.values().map(|kind| kind.start).collect();
        let Some(excess) = starts.len().checked_sub(MAX_KINDS / 2).filter(|&n| n > 0) else {
            return;
        };
        let (_, &mut last, _) = starts.select_nth_unstable(excess - 1);
        let forgotten = self.kinds.extract_if(|_, kind| kind.start <= last);
        self.forgotten += forgotten.map(|(_, kind)| kind.left_out).sum::<u64>();
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
        let all = LeftOut {
            count: 1001,
            of: Some(('a', "a".to_owned())),
        };
        assert_eq!(limit.take_left_out_until(end), [all]);
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

    #[test]
    fn many_kinds_do_not_use_up_memory_or_lines_of_others() {
        let limit = RateLimit::new();
        let start = Instant::now();
        let line = |kind: usize, now| limit.admit(kind, now, String::new);
        let remembered = || limit.0.lock().kinds.len();
        for _ in 0..MAX_LINES + 5 {
            line(0, start);
        }
        // Those in between began in the same moment, so more than half are forgotten at once.
        for kind in 1..10 * MAX_KINDS {
            assert_eq!(line(kind, start), Admission::Logged);
            assert!(remembered() <= MAX_KINDS);
        }
        let forgotten = LeftOut { count: 5, of: None };
        assert_eq!(limit.take_left_out_until(start), [forgotten]);
    }

    #[test]
    fn kinds_that_began_first_are_forgotten_first() {
        let limit = RateLimit::new();
        let start = Instant::now();
        let line = |kind: usize, now| limit.admit(kind, now, String::new);
        for kind in 0..MAX_KINDS {
            let now = start + PERIOD / 2 * u32::from(kind >= MAX_KINDS / 2);
            for _ in 0..MAX_LINES {
                assert_eq!(line(kind, now), Admission::Logged);
            }
        }
        let later = start + PERIOD * 3 / 4;
        assert_eq!(line(MAX_KINDS, later), Admission::Logged);
        assert_eq!(line(MAX_KINDS - 1, later), Admission::FirstLeftOut);
        assert_eq!(line(0, later), Admission::Logged);
        // Much later, only those with something to report are kept.
        let end = later + PERIOD;
        for kind in 2 * MAX_KINDS..5 * MAX_KINDS / 2 {
            assert_eq!(line(kind, end), Admission::Logged);
        }
        let kinds = &limit.0.lock().kinds;
        assert!(kinds.contains_key(&(MAX_KINDS - 1)) && !kinds.contains_key(&0));
    }
}
