//! Two users concurrently do random operations on names, while names change in the source, too: nothing that
//! the policy denies is ever read or changed.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use verimount_bridge::Passthrough;
use verimount_testkit::{Random, seed};

use crate::{records::Records, support::Bench};

mod case;
mod changes;
mod locks;
mod places;
mod rest;
mod user;
mod walk;
mod world;

use case::{ALLOWED, Case, DENIED, USERS};
use places::{DIRECTORIES, FILES};
use user::User;
use world::World;

/// The number of operations of all users in each test; overridden by `VERIMOUNT_POLICY_OPERATIONS`.
const OPERATIONS: usize = 2000;

/// The number of operations in a round.
const ROUND: usize = 400;

/// Each user has two threads.
const THREADS: usize = 4;

/// Changes of the source, past the mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// There are none.
    Still,
    /// Never during an operation of a user, so that each can be judged.
    Changes,
    /// At any moment: only the result is judged.
    Races,
}

impl Source {
    /// One of how many operations is a change of the source.
    fn share(self) -> Option<usize> {
        match self {
            Self::Still => None,
            Self::Changes => Some(10),
            Self::Races => Some(3),
        }
    }
}

/// Runs all operations of a case, in rounds: when everything has been moved to places that deny more, few
/// operations are possible.
fn run(case: &Case, source: Source) {
    let seed = seed();
    let rounds = operations().div_ceil(ROUND);
    let done: usize = (0..rounds)
        .map(|round| run_round(case, source, seed.wrapping_add((round * THREADS) as u64)))
        .sum();
    println!("{done} of {} operations did something", rounds * ROUND);
    assert!(done > rounds * ROUND / 50, "only {done}");
}

/// Runs a round. Returns how many operations had an effect.
fn run_round(case: &Case, source: Source, seed: u64) -> usize {
    let benches = bench(case);
    let world = World::new(&benches, case, source != Source::Races);
    let (left, done) = (AtomicUsize::new(ROUND), AtomicUsize::new(0));
    let is_left = || {
        left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
            .is_ok()
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let seed = seed.wrapping_add(thread as u64);
            let mut user = User::new(&world, USERS[thread % USERS.len()], seed);
            let mut dice = Random::new(!seed);
            let (is_left, done, world) = (&is_left, &done, &world);
            scope.spawn(move || {
                while is_left() {
                    match source.share() {
                        Some(share) if dice.below(share) == 0 => world.change_anything(&mut dice),
                        _ => drop(done.fetch_add(usize::from(user.step()), Relaxed)),
                    }
                }
            });
        }
    });
    world.rest();
    world.forget_all();
    let (bench, records) = &benches;
    records.check();
    assert_eq!(bench.bridge.status().remembered_files, 0);
    done.into_inner()
}

/// The initial directories and files. All opens are audited.
fn bench(case: &Case) -> (Bench, Records) {
    let rule = "[[rule]]";
    let audited = format!("{rule}\naction = \"audit\"\n{rule}");
    let policy = case.policy.replacen(rule, &audited, 1);
    let bench = Bench::new(&policy, Passthrough::Never);
    let records = Records::new();
    let bench = Bench {
        bridge: bench.bridge.with_audit(Some(records.audit.clone())),
        ..bench
    };
    let source = bench.folder.path();
    fs::remove_file(source.join("file")).unwrap();
    for directory in DIRECTORIES {
        fs::create_dir_all(source.join(directory)).unwrap();
        for name in FILES {
            let path = format!("{directory}/{name}");
            fs::write(source.join(&path), &path).unwrap();
        }
    }
    (bench, records)
}

fn operations() -> usize {
    let given = std::env::var("VERIMOUNT_POLICY_OPERATIONS").ok();
    given.map_or(OPERATIONS, |text| text.parse().unwrap())
}

#[test]
fn denied_files_stay_denied() {
    run(&DENIED, Source::Still);
}

#[test]
fn files_that_are_not_allowed_stay_denied() {
    run(&ALLOWED, Source::Still);
}

#[test]
fn files_are_denied_where_the_source_moves_them() {
    run(&DENIED, Source::Changes);
}

#[test]
fn files_are_not_allowed_where_the_source_moves_them() {
    run(&ALLOWED, Source::Changes);
}

#[test]
fn a_racing_source_leaves_nothing_allowed() {
    run(&DENIED, Source::Races);
}

#[test]
fn a_racing_source_leaves_nothing_allowed_that_is_not_listed() {
    run(&ALLOWED, Source::Races);
}

/// The policies have the meaning that the cases state, before anything is moved.
#[test]
fn the_cases_are_their_policies() {
    for case in [DENIED, ALLOWED] {
        let benches = bench(&case);
        World::new(&benches, &case, true).rest();
        benches.1.check();
    }
}
