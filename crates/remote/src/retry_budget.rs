use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

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

    /// How long the next retry has to wait.
    pub(crate) fn spend(&self) -> Duration {
        self.spend_at(Instant::now())
    }

    fn spend_at(&self, now: Instant) -> Duration {
        let mut tokens = self.lock(now);
        tokens.left -= 1.0;
        Duration::from_secs_f64((-tokens.left).max(0.0) / PER_SECOND)
    }

    /// The tokens as they are now.
    fn lock(&self, now: Instant) -> MutexGuard<'_, Tokens> {
        // Any number of tokens is a valid state.
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        for _ in 0..20 {
            assert_eq!(budget.spend_at(now), Duration::ZERO);
        }
        assert_eq!(budget.spend_at(now), Duration::from_secs(1));
        assert_eq!(budget.spend_at(now), Duration::from_secs(2));
        let later = now + Duration::from_secs(3);
        assert_eq!(budget.spend_at(later), Duration::ZERO);
        assert_eq!(budget.spend_at(later), Duration::from_secs(1));
    }

    #[test]
    fn success_earns_retries() {
        let budget = RetryBudget::default();
        for _ in 0..20 {
            budget.spend();
        }
        for _ in 0..30 {
            budget.earn();
        }
        for _ in 0..2 {
            assert_eq!(budget.spend(), Duration::ZERO);
        }
    }
}
