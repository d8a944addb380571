//! `cargo xtask crash`: the crash simulation of volumes, for any number of seeds, and the proof that it
//! detects mistakes.

use std::ops::Range;

use anyhow::{Context, Result};
use clap::Args;
use verimount_support::{command, workspace::cargo};
use verimount_testenv::CRASH_SEEDS;

/// The test of `verimount-integrity` that runs the simulation with each mutation.
const MUTATIONS: &str = "mutants::every_mutation_is_noticed";

/// Simulate crashes of volumes at every write and flush
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The seeds to try, the last one excluded
    #[arg(long, value_name = "FIRST..END", value_parser = seeds, default_value = "0..1000")]
    seeds: Range<u64>,
    /// Remove each flush and each ordering in turn, and print the first seed that detects it
    #[arg(long)]
    mutations: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut test = cargo("test");
    test.args(["--locked", "--package", "verimount-integrity"])
        .args(["--test", "crash"])
        .env(CRASH_SEEDS, format!("{:?}", options.seeds));
    if options.mutations {
        // Each is compiled by the test.
        test.args(["--", "--nocapture", "--ignored", "--exact", MUTATIONS])
    } else {
        test.args(["--release", "--", "--nocapture", "--test-threads=1"])
    };
    command::run(&mut test)
}

fn seeds(text: &str) -> Result<Range<u64>> {
    let (first, end) = text.split_once("..").context("not FIRST..END")?;
    Ok(first.parse()?..end.parse()?)
}
