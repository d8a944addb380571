//! What was tried.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use verimount_integrity::Mode;

use crate::{model::Model, scenario::MODES};

/// How many crashes were simulated in each mode.
#[derive(Debug, Default)]
pub(crate) struct Report([Counts; 3]);

#[derive(Debug, Default)]
struct Counts {
    points: AtomicU64,
    points_in_recovery: AtomicU64,
    states: AtomicU64,
}

impl Report {
    /// Counts a point at which the machine crashes.
    pub(crate) fn count_point(&self, model: &Model) {
        let counts = self.counts(model.mode);
        counts.points.fetch_add(1, Relaxed);
        let in_recovery = u64::from(model.is_recovering);
        counts.points_in_recovery.fetch_add(in_recovery, Relaxed);
    }

    /// Counts something that a crash may leave.
    pub(crate) fn count_state(&self, model: &Model) {
        self.counts(model.mode).states.fetch_add(1, Relaxed);
    }

    fn counts(&self, mode: Mode) -> &Counts {
        let index = MODES.iter().position(|&other| other == mode);
        &self.0[index.expect("only these modes write")]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (mode, counts) in MODES.iter().zip(&self.0) {
            writeln!(
                f,
                "{mode}: {} crash points, {} of them in recovery, {} states",
                counts.points.load(Relaxed),
                counts.points_in_recovery.load(Relaxed),
                counts.states.load(Relaxed)
            )?;
        }
        Ok(())
    }
}
