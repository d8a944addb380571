//! The steps that both `check` and `test` begin with.

use std::{path::Path, process::Command, time::Instant};

use anyhow::{Context, Result};
use verimount_support::{command, workspace::cargo};
use verimount_testenv::{CRASH_SEEDS, QUICK};

use crate::fuzz;

/// Seeds of simulated crashes in the quick form.
const QUICK_SEEDS: &str = "0..6";

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

/// Has exhaustive tests try only a sample.
pub(crate) fn quickly(tests: &mut Command) -> &mut Command {
    tests.env(QUICK, "1").env(CRASH_SEEDS, QUICK_SEEDS)
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
