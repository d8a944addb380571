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

use rustix::mount::mount_bind;

use self::fuzz::Fuzz;
use super::{CachePolicy, Mirrored, Shown, WAYS, for_all, world_on_ext4};
use crate::prelude::*;

/// The number of operations for each mount; overridden by `VERIMOUNT_THREE_USERS_OPERATIONS`.
const OPERATIONS: u32 = 2000;

fn operations() -> u32 {
    let given = env::var("VERIMOUNT_THREE_USERS_OPERATIONS").ok();
    given.map_or_else(|| random_cases(OPERATIONS), |text| text.parse().unwrap())
}

/// How long the kernel may remember.
fn bound(cache: CachePolicy) -> Option<Duration> {
    match cache {
        CachePolicy::Strict => None,
        // And a little for clocks that count in ticks.
        CachePolicy::Normal => Some(Duration::from_millis(1050)),
        CachePolicy::Exclusive => Some(Duration::from_secs(24 * 60 * 60)),
    }
}

fn three_users(cache: CachePolicy) {
    needs!(tools::find("python3"));
    let (seed, count) = (seed(), operations());
    let mut failures = Vec::new();
    for way in WAYS {
        let world = needs!(world_on_ext4(&[]));
        let [src, native] = ["src/mirrored", "src/native"].map(|name| world.directory(name));
        let mnt = world.path("mnt");
        let shown = Shown {
            cache,
            ..for_all(way)
        };
        let mounted = Mirrored::new(&src, &mnt, shown);
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
    three_users(CachePolicy::Strict);
}

#[test]
fn with_the_usual_cache() {
    three_users(CachePolicy::Normal);
}

#[test]
fn with_a_cache_without_limit() {
    three_users(CachePolicy::Exclusive);
}
