//! All that a person or CI runs in this repository: `cargo xtask --help`.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod bench;
mod conformance;
mod crash;
mod demo;
mod deny;
mod fuzz;
mod kernel_test;
mod test;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use verimount_support::program;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about, disable_help_subcommand = true)]
enum Task {
    Bench(bench::Options),
    Conformance(conformance::Options),
    Crash(crash::Options),
    /// Show what Verimount does: build, mount, read back, damage, verify
    Demo,
    /// Check that what Verimount writes is what the kernel reads, and the other way round
    KernelTest,
    #[command(hide = true)]
    Guest(kernel_test::guest::Options),
    #[command(hide = true)]
    WriteWithoutEnd(kernel_test::killed::writer::Options),
    Test(test::Options),
    /// Touch and free memory; what the benchmarks run before they fill the page cache
    #[command(hide = true)]
    TouchMemory {
        /// How much
        bytes: usize,
    },
}

fn main() -> ExitCode {
    let task = Task::parse();
    program::run(|| perform(task))
}

fn perform(task: Task) -> Result<()> {
    match task {
        Task::Bench(options) => bench::run(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Crash(options) => crash::run(&options),
        Task::Demo => demo::run(),
        Task::Guest(options) => kernel_test::guest::run(&options),
        Task::KernelTest => kernel_test::run(),
        Task::Test(options) => test::run(&options),
        Task::WriteWithoutEnd(options) => kernel_test::killed::writer::run(&options),
        Task::TouchMemory { bytes } => {
            bench::touch_memory(bytes);
            Ok(())
        }
    }
}
