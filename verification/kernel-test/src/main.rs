//! `cargo xtask kernel-test`: the kernel reads what Verimount writes, and the other way round.
//!
//! Debian's kernel and the newer one of its backports run at the same time, each in QEMU, with this
//! machine's root directory mounted read-only. In the guests, this same program runs the tests and prints
//! a line for each. Another guest of each kernel is killed while it writes.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod guest;
mod integritysetup;
mod killed;
mod report;

use std::{env, panic::resume_unwind, path::Path, process::ExitCode, thread};

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use verimount_machine::{Archive, Kernel, Machine};
use verimount_support::{
    program,
    setup::{self, Purpose},
    workspace,
};

use self::report::Report;

/// Check that the kernel reads what Verimount writes, and the other way round
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask kernel-test", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
}

/// The tasks of this program in a guest.
#[derive(Debug, Subcommand)]
enum Part {
    #[command(hide = true)]
    Guest(guest::Options),
    #[command(hide = true)]
    WriteWithoutEnd(killed::writer::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    program::run(|| match &arguments.part {
        None => run(),
        Some(Part::Guest(options)) => guest::run(options),
        Some(Part::WriteWithoutEnd(options)) => killed::writer::run(options),
    })
}

fn run() -> Result<()> {
    setup::ensure_ready(&[Purpose::KernelTest])?;
    let target = workspace::target()?;
    let verimount = workspace::build_tested_verimount()?;
    let folder = target.join("kernel-test");
    let mut kernels = vec![Kernel::unpacked(&Archive::of_release(), &folder)?];
    let newer = Archive::of_backports(&folder.join("backports"))
        .and_then(|archive| Kernel::unpacked(&archive, &folder));
    match newer {
        Ok(newer) => kernels.push(newer),
        Err(error) => println!("SKIPPED: the kernel of Debian's backports: {error:#}"),
    }
    run_in_all(&kernels, &verimount)
}

/// Tests these kernels at the same time. A failure of one does not end the others.
fn run_in_all(kernels: &[Kernel], verimount: &Path) -> Result<()> {
    let failures = thread::scope(|scope| {
        let start = |kernel| (kernel, scope.spawn(move || run_in(kernel, verimount)));
        let guests: Vec<_> = kernels.iter().map(start).collect();
        let ended = guests.into_iter().map(|(kernel, guest)| {
            let result = guest.join().unwrap_or_else(|panic| resume_unwind(panic));
            let error = result.err()?;
            Some(format!("Linux {}: {error:#}", kernel.version()))
        });
        ended.flatten().collect::<Vec<_>>()
    });
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

fn run_in(kernel: &Kernel, verimount: &Path) -> Result<()> {
    let mut report = Report::new(&format!("Linux {}", kernel.version()));
    let ended = test_in_guest(kernel, verimount, &mut report)
        .and_then(|()| killed::run(kernel, &mut report));
    report.conclude(ended)
}

/// A machine that runs a task of this program.
fn machine(kernel: &Kernel, task: &str) -> Result<Machine> {
    let program = env::current_exe()?;
    let shell_command = format!(
        "exec '{}' {task} --kernel '{}'",
        program.display(),
        kernel.root().display(),
    );
    Machine::in_host_root(kernel, &shell_command)
}

fn test_in_guest(kernel: &Kernel, verimount: &Path, report: &mut Report) -> Result<()> {
    let task = format!("guest --verimount '{}'", verimount.display());
    let guest = machine(kernel, &task)?.start()?;
    guest.follow(&mut |line| report.take(line))?;
    ensure!(report.is_whole(), "the guest ended before its tests did");
    Ok(())
}
