//! `cargo xtask check`: the checks and quick tests before each commit.

use anyhow::Result;
use verimount_support::{
    command,
    workspace::{cargo, target},
};

use crate::{
    programs::Program,
    steps::{check_sources, quickly, step},
};

pub(crate) fn run() -> Result<()> {
    check_sources(&target()?)?;
    step("Tests of the libraries and of the command", || {
        let mut test = cargo("test");
        test.args(["--workspace", "--locked"]);
        for program in Program::ALL {
            test.args(["--exclude", program.package()]);
        }
        command::run(quickly(&mut test))
    })
}
