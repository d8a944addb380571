//! Simulates a crash at any point, including during recovery from a crash.
//!
//! Every write and flush of a volume is recorded. For each of them, the volume is opened in states
//! that a crash at that point may leave: each unflushed write may be stored or missing. The run
//! then continues from one of these states, so that later crashes hit the recovery.

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
use verimount_testkit::{CRASH_SEEDS, Random, is_exhaustive};

use model::Model;
use report::Report;
use run::{Recovered, Run};
use scenario::{MODES, Scenario};

/// The size of a sector in bytes.
const SECTOR: usize = 512;

/// How often a run continues from a crashed state.
const ROUNDS: usize = 3;

/// How often the machine then crashes again while the volume is opened.
const OPENINGS: usize = 4;

/// The range of seeds unless [`CRASH_SEEDS`] is set; it takes a few seconds.
const FEW_SEEDS: Range<u64> = 0..4;

/// The range of seeds in exhaustive tests.
const SEEDS: Range<u64> = 0..24;

#[test]
fn flushed_writes_survive_a_crash_at_any_point() {
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
    // Its own random numbers, so that the earlier part of each seed stays unchanged.
    crash_opening(&scenario, before, &mut Random::new(!seed), report);
}

/// Crashes the machine repeatedly during recovery, in any mode.
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

/// The contents that opening the volume in this mode must arrive at, however often it is
/// interrupted.
fn expected(scenario: &Scenario, before: &[Vec<u8>], mode: Mode) -> Model {
    let found = Recovered::new(scenario, before, mode).found;
    Model::new(mode, found, scenario.block_sectors())
}

/// Crashes the machine at every point of a run, and checks what is left. Returns one of these
/// states.
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

/// Fails unless every block has allowed contents, and the same contents when the volume is opened
/// once more.
fn check(scenario: &Scenario, model: &Model, state: &[Vec<u8>], mode: Mode) {
    let Recovered { found, after } = Recovered::new(scenario, state, mode);
    model.check(&found);
    if after != state {
        let again = Recovered::new(scenario, &after, mode);
        assert_eq!(again.found, found, "recovered twice");
    }
}

/// A random mode: `mode` in most cases.
fn mostly(mode: Mode, random: &mut Random) -> Mode {
    match random.below(4) {
        0 => random.choose(&MODES),
        _ => mode,
    }
}

/// Runs `simulate` for each seed, on all processors.
///
/// # Panics
/// If any seed panics, with the lowest such seed.
fn for_all_seeds(simulate: impl Fn(u64, &Report) + Sync) -> Report {
    let seeds = seeds();
    let report = Report::default();
    let next = AtomicU64::new(seeds.start);
    let lowest_failing = AtomicU64::new(u64::MAX);
    let has_failed = AtomicBool::new(false);
    let work = || {
        // Seeds are taken in order, so all lower seeds have started by now and none is missed.
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
        return if is_exhaustive() { SEEDS } else { FEW_SEEDS };
    };
    let ends = seeds.split_once("..").and_then(|(start, end)| {
        let start = start.parse().ok()?;
        Some(start..end.parse().ok()?)
    });
    ends.unwrap_or_else(|| panic!("{CRASH_SEEDS} must be FIRST..END"))
}
