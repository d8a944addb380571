//! A directory mirrored through a policy. Nearly all of this also runs as an ordinary user, by
//! `ordinary_user`.

mod audit;
mod denials;
mod ends;
mod fairness;
mod limits;
mod policy;
mod restrictions;
mod status;
mod synchronous;
mod usage;

use crate::common::daemon::status;
use crate::prelude::*;

/// The serving modes: passed through if the kernel can, and relayed.
const WAYS: [&str; 2] = ["auto", "never"];

/// Mirrors `src` on `mnt`.
#[track_caller]
fn mount(world: &World, options: &[&str]) -> Daemon {
    Daemon::bridge(&world.path("src"), &world.path("mnt"), options)
}

/// Mirrors `src` on `mnt`, with files read and written in this one of the [`WAYS`].
#[track_caller]
fn mount_in(world: &World, way: &str) -> Daemon {
    mount(world, &["--passthrough", way])
}

/// Mirrors `src` on `mnt` by a policy with this text.
#[track_caller]
fn mount_by(world: &World, policy: &str) -> Daemon {
    let policy = world.write("policy.toml", policy);
    mount(world, &["--policy", policy.to_str().unwrap()])
}

/// Whether the kernel passes files of this bridge through; prints a note that work is skipped if not.
fn passes_through_or_skip(directory: &Path) -> bool {
    let passes = status(directory)["passthrough"]["refusal"].is_null();
    if !passes {
        skip("the kernel passes no files through here");
    }
    passes
}
