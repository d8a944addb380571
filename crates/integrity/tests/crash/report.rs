//! Statistics of the simulation.

use std::{
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use verimount_integrity::Mode;

use crate::{model::Model, scenario::MODES};

/// The interval between progress lines, as a run may take hours.
const INTERVAL: Duration = Duration::from_secs(60);

/// How many crashes were simulated in each mode.
#[derive(Debug)]
pub(crate) struct Report {
    counts: [Counts; 3],
    seeds: AtomicU64,
    last_said: Mutex<Instant>,
}

#[derive(Debug, Default)]
struct Counts {
    points: AtomicU64,
    points_in_recovery: AtomicU64,
    states: AtomicU64,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            counts: Default::default(),
            seeds: AtomicU64::new(0),
            last_said: Mutex::new(Instant::now()),
        }
    }
}

impl Report {
    /// Counts a finished seed, and prints a progress line now and then.
    pub(crate) fn count_seed(&self) {
        let seeds = self.seeds.fetch_add(1, Relaxed) + 1;
        let mut last_said = self.last_said.lock().unwrap();
        if last_said.elapsed() >= INTERVAL {
            *last_said = Instant::now();
            let total = |of: fn(&Counts) -> &AtomicU64| -> u64 {
                let counts = self.counts.iter().map(of);
                counts.map(|count| count.load(Relaxed)).sum()
            };
            let points = total(|counts| &counts.points);
            let states = total(|counts| &counts.states);
            println!("so far {seeds} seeds, {points} crash points, {states} states");
        }
    }

    /// Counts a simulated crash.
    pub(crate) fn count_point(&self, model: &Model) {
        let counts = self.counts(model.mode);
        counts.points.fetch_add(1, Relaxed);
        let in_recovery = u64::from(model.is_recovering);
        counts.points_in_recovery.fetch_add(in_recovery, Relaxed);
    }

    /// Counts a checked state after a crash.
    pub(crate) fn count_state(&self, model: &Model) {
        self.counts(model.mode).states.fetch_add(1, Relaxed);
    }

    fn counts(&self, mode: Mode) -> &Counts {
        let index = MODES.iter().position(|&other| other == mode);
        &self.counts[index.expect("only these modes write")]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} seeds", self.seeds.load(Relaxed))?;
        for (mode, counts) in MODES.iter().zip(&self.counts) {
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
