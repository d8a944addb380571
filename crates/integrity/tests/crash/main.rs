//! The machine crashes at any point, also while it recovers from a crash.
//!
//! Every write and flush of a volume is recorded, and for each of them the volume is opened as a
//! crash may have left it there: with each part of what was not flushed, or without it. One of these
//! states is then gone on with, so that the next crashes meet the recovery.

mod failing;
mod making;
mod model;
mod mutants;
mod mutations;
mod report;
mod run;
mod scenario;
mod waiter;

use std::{
    env,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
};

use verimount_integrity::Mode;
use verimount_testkit::{CRASH_SEEDS, Random};

use model::Model;
use report::Report;
use run::{Recovered, Run};
use scenario::{MODES, Scenario};

/// A sector in bytes.
const SECTOR: usize = 512;

/// How often the machine crashes for good, and the volume is gone on with.
const ROUNDS: usize = 3;

/// How often it crashes after that while the volume is opened.
const OPENINGS: usize = 4;

/// The seeds that are tried unless [`CRASH_SEEDS`] says otherwise: what takes a few seconds.
const DEFAULT_SEEDS: Range<u64> = 0..24;

#[test]
fn what_was_flushed_survives_a_crash_at_any_point() {
    let report = for_all_seeds(|seed, report| {
        simulate(seed, report);
        report.count_seed();
    });
    println!("{report}");
}

/// Tries one volume.
fn simulate(seed: u64, report: &Report) {
    let mut random = Random::new(seed);
    let scenario = Scenario::new(seed);
    let mut before = scenario.formatted();
    for round in 0..ROUNDS {
        let mode = match round {
            0 => scenario.mode,
            _ => mostly(scenario.mode, &mut random),
        };
        let mut model = expected(&scenario, &before, mode);
        model.is_recovering = round > 0;
        let run = Run::new(&scenario, before, model, &mut random);
        before = crash(&scenario, &run, &mut random, report);
    }
    // Numbers of its own, so that what comes before it in a seed stays as it was.
    crash_opening(&scenario, before, &mut Random::new(!seed), report);
}

/// Has the machine crash again and again before what a crash has left can be used, in whichever
/// mode it is opened.
fn crash_opening(
    scenario: &Scenario,
    mut before: Vec<Vec<u8>>,
    random: &mut Random,
    report: &Report,
) {
    for _ in 0..OPENINGS {
        let mut model = expected(scenario, &before, random.choose(&MODES));
        model.is_recovering = true;
        let run = Run::opening(scenario, before, model);
        before = crash(scenario, &run, random, report);
    }
}

/// What opening the volume in this mode has to come to, whatever interrupts it.
fn expected(scenario: &Scenario, before: &[Vec<u8>], mode: Mode) -> Model {
    let found = Recovered::new(scenario, before, mode).found;
    Model::new(mode, found, scenario.block_sectors())
}

/// Has the machine crash at every point of a run, and looks at what is left. Gives one of the states
/// that it is left in.
fn crash(scenario: &Scenario, run: &Run, random: &mut Random, report: &Report) -> Vec<Vec<u8>> {
    let chosen_point = random.below(run.recording.events() + 1);
    let mut chosen = None;
    for point in run.recording.crash_points() {
        let model = run.model_at(point.events);
        report.count_point(model);
        let states: Vec<_> = point.states(random.number()).collect();
        for state in &states {
            report.count_state(model);
            let mode = mostly(model.mode, random);
            let result = catch_unwind(|| check(scenario, model, state, mode));
            result.unwrap_or_else(|panic| {
                eprintln!(
                    "after {} of {} writes and flushes, in {} mode, opened in {mode} mode",
                    point.events,
                    run.recording.events(),
                    model.mode
                );
                resume_unwind(panic)
            });
        }
        if point.events == chosen_point {
            chosen = Some(states[random.below(states.len())].clone());
        }
    }
    chosen.expect("the point is one of them")
}

/// Fails unless every block is what it may be, and is the same if the volume is opened once more.
fn check(scenario: &Scenario, model: &Model, state: &[Vec<u8>], mode: Mode) {
    let Recovered { found, after } = Recovered::new(scenario, state, mode);
    model.check(&found);
    if after != state {
        let again = Recovered::new(scenario, &after, mode);
        assert_eq!(again.found, found, "recovered twice");
    }
}

/// A mode: most of the time this one.
fn mostly(mode: Mode, random: &mut Random) -> Mode {
    match random.below(4) {
        0 => random.choose(&MODES),
        _ => mode,
    }
}

/// Runs `simulate` for each seed, on all processors.
///
/// # Panics
/// If any of them does, with the lowest seed that does.
fn for_all_seeds(simulate: impl Fn(u64, &Report) + Sync) -> Report {
    let seeds = seeds();
    let report = Report::default();
    let next = AtomicU64::new(seeds.start);
    let lowest_failing = AtomicU64::new(u64::MAX);
    let has_failed = AtomicBool::new(false);
    let work = || {
        // All lower seeds are under way or done when one is taken, so none is missed.
        while !has_failed.load(SeqCst) {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= seeds.end {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| simulate(seed, &report))).is_err() {
                lowest_failing.fetch_min(seed, SeqCst);
                has_failed.store(true, SeqCst);
            }
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(work);
        }
    });
    let seed = lowest_failing.into_inner();
    assert!(seed == u64::MAX, "seed {seed} fails");
    println!("seeds {seeds:?}");
    report
}

fn seeds() -> Range<u64> {
    let Ok(seeds) = env::var(CRASH_SEEDS) else {
        return DEFAULT_SEEDS;
    };
    let ends = seeds.split_once("..").and_then(|(start, end)| {
        let start = start.parse().ok()?;
        Some(start..end.parse().ok()?)
    });
    ends.unwrap_or_else(|| panic!("{CRASH_SEEDS} must be FIRST..END"))
}
