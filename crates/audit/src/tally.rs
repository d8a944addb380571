use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// How many lines there were of one rule, and what became of them.
#[derive(Debug, Default)]
pub struct Tally {
    decided: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
}

/// The numbers of a [`Tally`] at a moment. What is neither lost nor refused is in the target, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleCounts {
    /// Decisions.
    pub decided: u64,
    /// Those that went on without a line.
    pub lost: u64,
    /// Those that failed, as their line could not be written.
    pub refused: u64,
}

impl RuleCounts {
    /// Both together.
    #[must_use]
    pub fn plus(self, others: Self) -> Self {
        Self {
            decided: self.decided.saturating_add(others.decided),
            lost: self.lost.saturating_add(others.lost),
            refused: self.refused.saturating_add(others.refused),
        }
    }
}

impl Tally {
    /// Counts a decision of which there is a line, or nobody wants one.
    pub fn decided(&self) {
        self.decided.fetch_add(1, Relaxed);
    }

    pub(crate) fn lost(&self) {
        self.decided();
        self.lost.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.decided();
        self.refused.fetch_add(1, Relaxed);
    }

    /// Its present numbers.
    pub fn counts(&self) -> RuleCounts {
        RuleCounts {
            decided: self.decided.load(Relaxed),
            lost: self.lost.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }
}
