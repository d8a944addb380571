//! `cargo xtask crash`: the crash simulation of volumes, for as long as one likes, and the proof that
//! it would notice.

mod mutants;
mod mutations;

use std::ops::Range;

use anyhow::{Context, Result};
use clap::Args;
use verimount_testenv::CRASH_SEEDS;

use crate::{command, workspace::cargo};

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
    match options.mutations {
        true => mutants::run(&options.seeds),
        false => {
            let mut simulation = cargo("test");
            simulation
                .args(["--release", "--locked", "--package", "verimount-integrity"])
                .args(["--test", "crash", "--", "--nocapture", "--test-threads=1"])
                .env(CRASH_SEEDS, format!("{:?}", options.seeds));
            command::run(&mut simulation)
        }
    }
}

fn seeds(text: &str) -> Result<Range<u64>> {
    let (first, end) = text.split_once("..").context("not FIRST..END")?;
    Ok(first.parse()?..end.parse()?)
}
