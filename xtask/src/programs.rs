//! The tasks that are separate programs. They are compiled with the product, for which the other tasks
//! need not wait.

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
    Agreement,
    Archives,
    Bench,
    Conformance,
    Containers,
    Installation,
    KernelTest,
    Models,
}

/// Arguments for a program, which has a `--help` of its own.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Program {
    pub(crate) const ALL: [Self; 8] = [
        Self::Agreement,
        Self::Archives,
        Self::Bench,
        Self::Conformance,
        Self::Containers,
        Self::Installation,
        Self::KernelTest,
        Self::Models,
    ];

    /// The package that contains only this program.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Agreement => "verimount-agreement",
            Self::Archives => "verimount-archives",
            Self::Bench => "verimount-bench",
            Self::Conformance => "verimount-conformance",
            Self::Containers => "verimount-containers",
            Self::Installation => "verimount-installation",
            Self::KernelTest => "verimount-kernel-test",
            Self::Models => "verimount-models-check",
        }
    }

    /// Replaces this process with the program; returns only on failure.
    pub(crate) fn go_on_as(self, arguments: &Arguments) -> Result<()> {
        let mut program = self.command();
        // In the caller's directory, for paths among the arguments.
        program.current_dir(env::current_dir()?);
        Err(program.args(&arguments.arguments).exec().into())
    }

    /// Runs this program as a part of a task.
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

    /// Whether it is optimised, as the product that it measures is.
    fn is_optimised(self) -> bool {
        matches!(self, Self::Bench)
    }
}
