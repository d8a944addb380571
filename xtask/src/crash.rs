//! `cargo xtask crash`: the crash simulation of volumes, for as long as one likes, and the proof that
//! it would notice.

use std::ops::Range;

use anyhow::{Context, Result};
use clap::Args;
use verimount_support::{command, workspace::cargo};
use verimount_testenv::CRASH_SEEDS;

/// The test of `verimount-integrity` that runs the simulation with each mutation.
const MUTATIONS: &str = "mutants::every_mutation_is_noticed";

/// Simulate crashes of volumes at every point of what is done to them
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The seeds to try, the last one excluded
    #[arg(long, value_name = "FIRST..END", value_parser = seeds, default_value = "0..1000")]
    seeds: Range<u64>,
    /// Take away each flush and each order in turn, and name the first seed that notices
    #[arg(long)]
    mutations: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut test = cargo("test");
    test.args(["--locked", "--package", "verimount-integrity"])
        .args(["--test", "crash"])
        .env(CRASH_SEEDS, format!("{:?}", options.seeds));
    match options.mutations {
        // Each is compiled by the test.
        true => test.args(["--", "--nocapture", "--ignored", "--exact", MUTATIONS]),
        false => test.args(["--release", "--", "--nocapture", "--test-threads=1"]),
    };
    command::run(&mut test)
}

fn seeds(text: &str) -> Result<Range<u64>> {
    let (first, end) = text.split_once("..").context("not FIRST..END")?;
    Ok(first.parse()?..end.parse()?)
}
