//! The tasks that are programs of their own. They are compiled with the product, which the other tasks do
//! not wait for.

use std::{env, ffi::OsString, os::unix::process::CommandExt, process::Command};

use anyhow::Result;
use clap::Args;
use verimount_support::{
    command,
    workspace::{cargo, root},
};

/// A program of this workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Program {
    Bench,
    Conformance,
    KernelTest,
}

/// What a program is told, which has its own `--help`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Program {
    pub(crate) const ALL: [Self; 3] = [Self::Bench, Self::Conformance, Self::KernelTest];

    /// The package that has it, and nothing else.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Bench => "verimount-bench",
            Self::Conformance => "verimount-conformance",
            Self::KernelTest => "verimount-kernel-test",
        }
    }

    /// Goes on as this program; comes back only if it cannot.
    pub(crate) fn go_on_as(self, arguments: &Arguments) -> Result<()> {
        let mut program = self.command();
        // Paths among the arguments are the caller's.
        program.current_dir(env::current_dir()?);
        Err(program.args(&arguments.arguments).exec().into())
    }

    /// Runs this program, as a part of what is done here.
    pub(crate) fn run(self, arguments: &[&str]) -> Result<()> {
        command::run(self.command().args(arguments))
    }

    fn command(self) -> Command {
        let mut run = cargo("run");
        run.args(["--quiet", "--locked", "--manifest-path"])
            .arg(root().join("Cargo.toml"))
            .args(["--package", self.package()]);
        if self.is_optimised() {
            run.arg("--release");
        }
        run.arg("--");
        run
    }

    /// Whether it is compiled as users get the product: as what it measures is.
    fn is_optimised(self) -> bool {
        matches!(self, Self::Bench)
    }
}
