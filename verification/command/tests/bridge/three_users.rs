//! Three users and a source that changes meanwhile: whatever the source refuses, the bridge refuses.
//!
//! There are two like trees in one file system. One is mirrored. All that happens to it, through the
//! mount or in the source, happens to the other one directly, by the same user. Results and trees must be
//! the same, except for what the kernel may remember of a mount.

mod documented;
mod fuzz;
mod generate;
mod operation;
mod perform;
mod remembered;
mod tree;
mod user;

use std::{env, time::Duration};

use rustix::mount::mount_bind;
use verimount_testkit::{random_cases, seed, tools};

use self::fuzz::Fuzz;
use super::{WAYS, world_on_ext4};
use crate::common::daemon::Daemon;

/// The number of operations for each mount; overridden by `VERIMOUNT_THREE_USERS_OPERATIONS`.
const OPERATIONS: u32 = 2000;

/// How long an operation and what is compared after it takes at most, on average: a mount that lasts
/// longer hangs.
const PATIENCE: Duration = Duration::from_millis(100);

fn operations() -> u32 {
    let given = env::var("VERIMOUNT_THREE_USERS_OPERATIONS").ok();
    given.map_or_else(|| random_cases(OPERATIONS), |text| text.parse().unwrap())
}

/// How long the kernel may remember: for the cache mode of this name.
fn bound(cache: &str) -> Option<Duration> {
    match cache {
        "strict" => None,
        // And a little for clocks that count in ticks.
        "normal" => Some(Duration::from_millis(1050)),
        "exclusive" => Some(Duration::from_secs(24 * 60 * 60)),
        other => panic!("no cache mode: {other}"),
    }
}

fn three_users(cache: &str) {
    if tools::find("python3").is_none() {
        return;
    }
    let (seed, count) = (seed(), operations());
    let mut failures = Vec::new();
    for way in WAYS {
        let Some(world) = world_on_ext4(&[]) else {
            return;
        };
        let [src, native] = ["src/mirrored", "src/native"].map(|name| world.directory(name));
        let mnt = world.path("mnt");
        let options = ["--allow-other", "--cache", cache, "--passthrough", way];
        let mut mounted = Daemon::bridge(&src, &mnt, &options);
        mounted.bites_after(PATIENCE * count.max(1000));
        // Half of it through another mount of the same file system.
        let (source, native) = match way {
            "auto" => (src, native),
            _ => {
                let other = world.directory("other");
                mount_bind(world.path("src"), &other).unwrap();
                (other.join("mirrored"), other.join("native"))
            }
        };
        let mut fuzz = Fuzz::new([source, native, mnt], bound(cache), way == "auto", seed);
        for _ in 0..count {
            fuzz.step();
        }
        failures.extend(fuzz.report(&format!("{cache} {way}")));
        drop(fuzz);
        mounted.unmount();
    }
    assert!(failures.is_empty(), "VERIMOUNT_SEED={seed}: {failures:#?}");
}

#[test]
fn with_nothing_cached() {
    three_users("strict");
}

#[test]
fn with_the_usual_cache() {
    three_users("normal");
}

#[test]
fn with_a_cache_without_limit() {
    three_users("exclusive");
}
