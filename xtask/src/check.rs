//! `cargo xtask check`: the checks and quick tests before each commit.

use anyhow::Result;
use verimount_support::workspace::target;

use crate::{
    programs::Program,
    skips::Skips,
    steps::{cargo_test, check_sources, run_tests, step},
};

pub(crate) fn run() -> Result<()> {
    let target = target()?;
    let skips = Skips::new(&target)?;
    check_sources(&target)?;
    step("Tests of the libraries and of the command", || {
        let mut test = cargo_test();
        for program in Program::ALL {
            test.args(["--exclude", program.package()]);
        }
        run_tests(&mut test, &skips)
    })?;
    skips.print()
}
