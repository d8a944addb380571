//! `cargo xtask test`: every check and test, cheapest first.

use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use verimount_testkit::{QUICK, tools::REQUIRE_TOOLS};

use crate::{
    command, conformance, crash, deny, fuzz, kernel_test,
    setup::{self, Purpose},
    workspace::{cargo, target},
};

/// Run every check and test; stop at the first that fails
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave out what takes minutes: mirrored directories' conformance, the kernel, fuzz targets, and
    /// most of the simulated crashes and of the bytes that are changed below mounts
    #[arg(long)]
    quick: bool,
}

/// Of simulated crashes, if there is little time.
const QUICK_SEEDS: &str = "0..6";

pub(crate) fn run(options: &Options) -> Result<()> {
    setup::ensure_ready(Purpose::Test)?;
    step("Format", || {
        command::run(cargo("fmt").args(["--all", "--check"]))?;
        command::run(cargo("fmt").args(["--manifest-path", fuzz::MANIFEST, "--check"]))
    })?;
    let target = target()?;
    step("Lints", || {
        let mut clippy = cargo("clippy");
        clippy.args(["--workspace", "--all-targets", "--locked"]);
        command::run(clippy.args(["--", "-Dwarnings"]))?;
        command::run(fuzz::clippy(&target.join("fuzz")).args(["--", "-Dwarnings"]))
    })?;
    step("Documentation", || {
        let mut doc = cargo("doc");
        doc.args(["--workspace", "--no-deps", "--locked"])
            .env("RUSTDOCFLAGS", "-Dwarnings");
        command::run(&mut doc)
    })?;
    step("Dependencies", || deny::check(&target))?;
    step("Tests", || {
        let mut test = cargo("test");
        test.args(["--workspace", "--locked"])
            .env(REQUIRE_TOOLS, "1");
        if options.quick {
            test.env(QUICK, "1").env(crash::SEEDS, QUICK_SEEDS);
        }
        command::run(&mut test)
    })?;
    if options.quick {
        println!("== Conformance, kernel, fuzz targets: left out (--quick)");
        return Ok(());
    }
    step("Conformance of mirrored directories", conformance::check)?;
    step("Kernel", kernel_test::run)?;
    step("Fuzz targets", || fuzz::run(&target.join("fuzz")))
}

/// Runs one step, with its name before it and its time after it.
fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    work().with_context(|| format!("the step \"{name}\" failed"))?;
    println!(
        "== {name}: passed in {:.1} s\n",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
