//! The tasks that are separate programs. They are compiled with the product, for which the other tasks
//! need not wait.

use std::{ffi::OsString, os::unix::process::CommandExt, process::Command};

use anyhow::Result;
use clap::Args;
use verimount_support::{
    command,
    workspace::{DEV, RELEASE, build},
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

    /// The package that contains only this program, which has the same name.
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
        Err(self.command()?.args(&arguments.arguments).exec().into())
    }

    /// Runs this program as a part of a task.
    pub(crate) fn run(self, arguments: &[&str]) -> Result<()> {
        command::run(self.command()?.args(arguments))
    }

    /// Compiles it, and returns what runs it.
    fn command(self) -> Result<Command> {
        // Optimised, as the product that it measures is.
        let is_optimised = matches!(self, Self::Bench);
        let profile = if is_optimised { RELEASE } else { DEV };
        Ok(Command::new(build(self.package(), profile)?))
    }
}
