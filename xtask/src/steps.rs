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

use crate::{comments, features, fuzz, skips::Skips};

/// How many tests of a program run at once.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Checks format, comments, lock files and features of everything, which takes seconds.
pub(crate) fn check_at_once() -> Result<()> {
    step(
        "Format",
        "compares all sources with what rustfmt makes of them",
        || {
            command::run(cargo("fmt").args(["--all", "--check"]))?;
            command::run(cargo("fmt").args(["--manifest-path", fuzz::MANIFEST, "--check"]))
        },
    )?;
    step(
        "Comments",
        "looks for those that say \"the same\", and not as what",
        comments::check,
    )?;
    step(
        "Lock files",
        "looks whether Cargo would change them",
        || {
            for manifest in ["Cargo.toml", fuzz::MANIFEST] {
                let mut tree = cargo("tree");
                tree.args(["--locked", "--depth", "0", "--manifest-path", manifest]);
                command::stdout(&mut tree)?;
            }
            Ok(())
        },
    )?;
    step(
        "Features",
        "looks for libraries that would be compiled twice",
        features::check,
    )
}

/// Checks lints and documentation of everything, without running it. The fuzz targets are built below `target`.
pub(crate) fn check_sources(target: &Path) -> Result<()> {
    step(
        "Lints",
        "checks all sources with Clippy, and each feature of the library alone",
        || {
            let mut clippy = cargo("clippy");
            clippy.args(["--workspace", "--all-targets", "--locked"]);
            command::run(clippy.args(["--", "-Dwarnings"]))?;
            for mut clippy in features::alone("clippy") {
                command::run(clippy.args(["--", "-Dwarnings"]))?;
            }
            command::run(fuzz::clippy(&fuzz::folder(target)).args(["--", "-Dwarnings"]))
        },
    )?;
    step("Documentation", "makes that of the libraries", || {
        let mut doc = cargo("doc");
        doc.args(["--workspace", "--no-deps", "--locked"])
            .env("RUSTDOCFLAGS", "-Dwarnings");
        command::run(&mut doc)
    })
}

/// Runs `cargo test` for the workspace with what `settings` adds, those tests first that are compiled first, and counts the
/// tests that are skipped.
pub(crate) fn run_tests(skips: &Skips, settings: impl Fn(&mut Command)) -> Result<()> {
    let run = |kind: &[&str]| {
        let mut test = cargo_test();
        settings(&mut test);
        command::run(test.args(kind).env(SKIPS, skips.path()))
    };
    step(
        "Unit tests of the libraries",
        "compiles all libraries, in a fresh clone for some minutes, and tests each by itself",
        || run(&["--lib"]),
    )?;
    step(
        "Tests",
        "compiles the command and all tests, and runs them",
        || {
            // They would compile it while they run.
            build_tested_verimount()?;
            run(&["--bins", "--test", "*"])
        },
    )?;
    step(
        "Examples",
        "compiles and runs those in the documentation",
        || run(&["--doc"]),
    )
}

/// `cargo test` for the workspace. Most tests wait for other processes and for the kernel rather than compute, so twice as
/// many run at once as there are processors.
fn cargo_test() -> Command {
    let mut test = cargo("test");
    test.args(["--workspace", "--locked"]).env(AS_NOBODY, "1");
    if env::var_os(TEST_THREADS).is_none() {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        test.env(TEST_THREADS, (2 * processors).to_string());
    }
    test
}

/// Runs one step, and prints its name and what it does before, and its time after.
pub(crate) fn step(name: &str, does: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}: {does}");
    let start = Instant::now();
    work().with_context(|| format!("the step \"{name}\" failed"))?;
    println!(
        "== {name}: passed in {:.1} s\n",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
