//! `cargo xtask check`: the checks and quick tests before each commit.

use anyhow::Result;
use verimount_support::workspace::target;

use crate::{
    programs::Program,
    skips::Skips,
    steps::{check_at_once, check_sources, run_tests},
};

pub(crate) fn run() -> Result<()> {
    let target = target()?;
    let skips = Skips::new(&target)?;
    check_at_once()?;
    run_tests(&skips, |test| {
        for program in Program::ALL {
            test.args(["--exclude", program.package()]);
        }
    })?;
    check_sources(&target)?;
    skips.print()
}
