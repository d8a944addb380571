//! The tasks that developers and CI run in this repository: `cargo xtask --help`.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod check;
mod comments;
mod crash;
mod demo;
mod deny;
mod dist;
mod features;
mod fuzz;
mod lines;
mod programs;
mod python;
mod setup;
mod skips;
mod steps;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use verimount_support::program;

use self::programs::Program;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about, disable_help_subcommand = true)]
enum Task {
    /// Check that EROFS images look the same through Verimount, the kernel and erofs-utils
    Agreement(programs::Arguments),
    /// Check that tar archives are the same trees to Verimount, GNU tar, libarchive, Python and Go
    Archives(programs::Arguments),
    /// Compare with other programs; print tables, and write JSON, Markdown and plots to target/bench
    Bench(programs::Arguments),
    /// Check the sources and run the quick tests: run this before a commit
    Check,
    /// Run other projects' test suites in mirrored directories (pjdfstest, fsx, git, SQLite) and on
    /// volumes (PostgreSQL)
    Conformance(programs::Arguments),
    /// Check that mounted layers of container images show what podman shows
    Containers(programs::Arguments),
    Crash(crash::Options),
    /// Show what Verimount does: build, mount, read back, damage, verify
    Demo,
    Dist(dist::Options),
    /// Check that what dist makes can be installed in a fresh Debian, used and removed
    Installation(programs::Arguments),
    /// Check that the kernel reads what Verimount writes, and the other way round
    KernelTest(programs::Arguments),
    Lines(lines::Options),
    /// Check that Verimount accepts what model_signing has signed, and refuses what it refuses
    Models(programs::Arguments),
    Python(python::Options),
    /// Install the Debian packages that the tests need
    ///
    /// Prints which are missing, and the purpose of each. For other users than root it prints the command
    /// that installs them.
    Setup,
    Test(test::Options),
}

fn main() -> ExitCode {
    let task = Task::parse();
    program::run(|| perform(task))
}

fn perform(task: Task) -> Result<()> {
    match task {
        Task::Agreement(arguments) => Program::Agreement.go_on_as(&arguments),
        Task::Archives(arguments) => Program::Archives.go_on_as(&arguments),
        Task::Bench(arguments) => Program::Bench.go_on_as(&arguments),
        Task::Containers(arguments) => Program::Containers.go_on_as(&arguments),
        Task::Check => check::run(),
        Task::Conformance(arguments) => Program::Conformance.go_on_as(&arguments),
        Task::Crash(options) => crash::run(&options),
        Task::Demo => demo::run(),
        Task::Dist(options) => dist::run(&options),
        Task::Installation(arguments) => Program::Installation.go_on_as(&arguments),
        Task::KernelTest(arguments) => Program::KernelTest.go_on_as(&arguments),
        Task::Models(arguments) => Program::Models.go_on_as(&arguments),
        Task::Lines(options) => lines::run(&options),
        Task::Python(options) => python::run(&options),
        Task::Setup => setup::run(),
        Task::Test(options) => test::run(&options),
    }
}
