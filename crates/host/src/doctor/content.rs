//! What is fetched from other machines.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::fs::statvfs;
use verimount_names::printable;

use super::Diagnosis;
use crate::far;

/// A time before the release of this program: 2026-11-01, since 1970.
const BEFORE_RELEASE: Duration = Duration::from_secs(1_793_491_200);

/// The least free space for the cache, in bytes.
const LEAST_SPACE: u64 = 1 << 30;

pub(super) fn examine(cache: Option<&Path>) -> Vec<Diagnosis> {
    let all = [Some(clock()), far::certificates(), cache.and_then(space)];
    all.into_iter().flatten().collect()
}

fn clock() -> Diagnosis {
    const ABOUT: &str = "clock";
    if SystemTime::now() < SystemTime::UNIX_EPOCH + BEFORE_RELEASE {
        Diagnosis::limited(
            ABOUT,
            "it shows a time before the release of this program: certificates of servers seem not to be valid yet",
            "timedatectl set-ntp true",
        )
    } else {
        Diagnosis::good(ABOUT, "it shows a time after the release of this program")
    }
}

/// The free space where content of URLs is kept, or will be.
fn space(cache: &Path) -> Option<Diagnosis> {
    const ABOUT: &str = "cache";
    let there = cache.ancestors().find(|folder| folder.exists())?;
    let found = statvfs(there).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("{}: {} MiB free", printable(cache), free >> 20);
    Some(if free < LEAST_SPACE {
        Diagnosis::limited(
            ABOUT,
            text,
            "verimount cache clear; or --cache DIR on another disk",
        )
    } else {
        Diagnosis::good(ABOUT, text)
    })
}
