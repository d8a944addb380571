//! What is fetched from other machines.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::fs::statvfs;
use verimount_names::printable;

use super::{Diagnosis, has_system_certificates};

/// A time before the release of this program: 2026-11-01, since 1970.
const BEFORE_RELEASE: Duration = Duration::from_secs(1_793_491_200);

/// The least free space for the cache, in bytes.
const LEAST_SPACE: u64 = 1 << 30;

pub(super) fn examine(cache: Option<&Path>) -> Vec<Diagnosis> {
    let mut all = vec![clock(), certificates()];
    all.extend(cache.and_then(space));
    all
}

/// By whose certificates servers are believed.
fn certificates() -> Diagnosis {
    let old = (
        "the system has none of authorities: servers are believed by those in this program, which become old",
        "apt install ca-certificates",
    );
    let good = "the system has those of authorities";
    Diagnosis::judged("certificates", has_system_certificates(), good, old)
}

fn clock() -> Diagnosis {
    let is_good = SystemTime::now() >= SystemTime::UNIX_EPOCH + BEFORE_RELEASE;
    let wrong = (
        "it shows a time before the release of this program: certificates of servers seem not to be valid yet",
        "timedatectl set-ntp true",
    );
    let good = "it shows a time after the release of this program";
    Diagnosis::judged("clock", is_good, good, wrong)
}

/// The free space where content of URLs is kept, or will be.
fn space(cache: &Path) -> Option<Diagnosis> {
    let there = cache.ancestors().find(|folder| folder.exists())?;
    let found = statvfs(there).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("{}: {} MiB free", printable(cache), free >> 20);
    let cure = "verimount cache clear; or --cache DIR on another disk";
    let little = (text.clone(), cure);
    Some(Diagnosis::judged(
        "cache",
        free >= LEAST_SPACE,
        text,
        little,
    ))
}
