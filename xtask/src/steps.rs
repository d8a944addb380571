//! The steps that both `check` and `test` begin with.

use std::{
    env, num::NonZeroUsize, path::Path, process::Command, thread::available_parallelism,
    time::Instant,
};

use anyhow::{Context, Result};
use verimount_support::{
    command,
    workspace::{build_tested_verimount, cargo},
};
use verimount_testenv::{AS_NOBODY, SKIPS};

use crate::{fuzz, skips::Skips};

/// How many tests of a program run at once.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Checks format, lints and documentation of everything, without running it. The fuzz targets are built
/// below `target`.
pub(crate) fn check_sources(target: &Path) -> Result<()> {
    step("Format", || {
        command::run(cargo("fmt").args(["--all", "--check"]))?;
        command::run(cargo("fmt").args(["--manifest-path", fuzz::MANIFEST, "--check"]))
    })?;
    step("Lints", || {
        let mut clippy = cargo("clippy");
        clippy.args(["--workspace", "--all-targets", "--locked"]);
        command::run(clippy.args(["--", "-Dwarnings"]))?;
        command::run(fuzz::clippy(&fuzz::folder(target)).args(["--", "-Dwarnings"]))
    })?;
    step("Documentation", || {
        let mut doc = cargo("doc");
        doc.args(["--workspace", "--no-deps", "--locked"])
            .env("RUSTDOCFLAGS", "-Dwarnings");
        command::run(&mut doc)
    })
}

/// `cargo test` for the workspace. Most tests wait for other processes and for the kernel rather than compute, so twice as
/// many run at once as there are processors.
pub(crate) fn cargo_test() -> Command {
    let mut test = cargo("test");
    test.args(["--workspace", "--locked"]).env(AS_NOBODY, "1");
    if env::var_os(TEST_THREADS).is_none() {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        test.env(TEST_THREADS, (2 * processors).to_string());
    }
    test
}

/// Runs `cargo test` as [`cargo_test`] made it, and counts the tests that are skipped.
pub(crate) fn run_tests(test: &mut Command, skips: &Skips) -> Result<()> {
    // Its own tests would compile the command while they run.
    build_tested_verimount()?;
    command::run(test.env(SKIPS, skips.path()))
}

/// Runs one step, and prints its name before and its time after.
pub(crate) fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    work().with_context(|| format!("the step \"{name}\" failed"))?;
    println!(
        "== {name}: passed in {:.1} s\n",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
