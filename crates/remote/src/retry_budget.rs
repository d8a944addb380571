use std::time::{Duration, Instant};

use verimount_sync::{Mutex, MutexGuard};

/// Retries that may follow one another at once.
const BURST: f64 = 20.0;

/// Retries that each request earns.
const PER_REQUEST: f64 = 0.1;

/// Retries that each second earns.
const PER_SECOND: f64 = 1.0;

/// Bounds how often a whole session retries, so that readers together do not ask a failing server more
/// often than one would.
#[derive(Debug)]
pub(crate) struct RetryBudget(Mutex<Tokens>);

#[derive(Debug)]
struct Tokens {
    /// Below zero if retries are promised for later.
    left: f64,
    at: Instant,
}

impl RetryBudget {
    /// A request has succeeded.
    pub(crate) fn earn(&self) {
        self.lock(Instant::now()).earn(PER_REQUEST);
    }

    /// How long the next retry has to wait; `None` if that is `most` or longer. There is then no retry, which
    /// costs nothing: those who give up during an outage leave what others need after it.
    pub(crate) fn spend(&self, most: Duration) -> Option<Duration> {
        self.spend_at(Instant::now(), most)
    }

    fn spend_at(&self, now: Instant, most: Duration) -> Option<Duration> {
        let mut tokens = self.lock(now);
        let left = tokens.left - 1.0;
        let wait = Duration::from_secs_f64((-left).max(0.0) / PER_SECOND);
        let is_soon = wait < most;
        if is_soon {
            tokens.left = left;
        }
        is_soon.then_some(wait)
    }

    /// The tokens as they are now.
    fn lock(&self, now: Instant) -> MutexGuard<'_, Tokens> {
        let mut tokens = self.0.lock();
        let passed = now.saturating_duration_since(tokens.at);
        tokens.at = tokens.at.max(now);
        tokens.earn(passed.as_secs_f64() * PER_SECOND);
        tokens
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self(Mutex::new(Tokens {
            left: BURST,
            at: Instant::now(),
        }))
    }
}

impl Tokens {
    fn earn(&mut self, tokens: f64) {
        self.left = (self.left + tokens).min(BURST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_later_retries_wait_for_one_another() {
        let budget = RetryBudget::default();
        let now = Instant::now();
        let spend_at = |now| budget.spend_at(now, Duration::MAX).unwrap().as_secs();
        for _ in 0..20 {
            assert_eq!(spend_at(now), 0);
        }
        assert_eq!((spend_at(now), spend_at(now)), (1, 2));
        let later = now + Duration::from_secs(3);
        assert_eq!((spend_at(later), spend_at(later)), (0, 1));
    }

    #[test]
    fn what_is_not_retried_costs_nothing() {
        let budget = RetryBudget::default();
        let (now, most) = (Instant::now(), Duration::from_secs(2));
        for _ in 0..20 {
            assert_eq!(budget.spend_at(now, most), Some(Duration::ZERO));
        }
        assert_eq!(budget.spend_at(now, most), Some(Duration::from_secs(1)));
        for _ in 0..100 {
            assert_eq!(budget.spend_at(now, most), None);
        }
        let later = now + most;
        assert_eq!(budget.spend_at(later, most), Some(Duration::ZERO));
    }

    #[test]
    fn success_earns_retries() {
        let budget = RetryBudget::default();
        for _ in 0..20 {
            budget.spend(Duration::MAX);
        }
        for _ in 0..30 {
            budget.earn();
        }
        for _ in 0..2 {
            assert_eq!(budget.spend(Duration::MAX), Some(Duration::ZERO));
        }
    }
}
