//! `cargo xtask check`: the checks and quick tests before each commit.

use anyhow::Result;
use verimount_support::workspace::target;

use crate::{
    programs::Program,
    steps::{cargo_test, check_sources, run_tests, step},
};

pub(crate) fn run() -> Result<()> {
    check_sources(&target()?)?;
    step("Tests of the libraries and of the command", || {
        let mut test = cargo_test();
        for program in Program::ALL {
            test.args(["--exclude", program.package()]);
        }
        run_tests(&mut test)
    })
}
