//! `cargo xtask conformance`: runs other projects' test suites and programs in a directory, and in its
//! mirrors.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod fsx;
mod git;
mod io_uring;
mod pjdfstest;
mod postgresql;
mod source;
mod sqlite;
mod way;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use tempfile::TempDir;
use verimount_support::{
    command, interrupt, program,
    setup::{self, Purpose},
    workspace::{build_tested_verimount, cargo, target},
};

use self::{
    fsx::Fsx,
    io_uring::Switch,
    pjdfstest::{Outcomes, Pjdfstest},
    source::{Kind, Source},
    way::Way,
};

/// The extent of the tests.
struct Extent {
    /// The sources, each with the number of operations of fsx in each way to use it.
    sources: &'static [(Kind, u32)],
    /// Transactions of each SQLite writer, in each way.
    transactions: u32,
    /// How often the daemon below a database is killed, in each mode of a volume.
    kills: u32,
}

const FULL: Extent = Extent {
    sources: &[
        (Kind::Tmpfs, 200_000),
        (Kind::Disk("ext4"), 20_000),
        (Kind::Disk("xfs"), 20_000),
        (Kind::Disk("btrfs"), 20_000),
        (Kind::Overlay, 20_000),
    ],
    transactions: 1000,
    kills: 20,
};

/// Three minutes.
const SHORT: Extent = Extent {
    sources: &[(Kind::Disk("ext4"), 5_000)],
    transactions: 50,
    kills: 2,
};

/// For how many seconds one file is opened by many.
const RACE_SECONDS: &str = "60";

/// How many operations three users try on each of six mounts whose source changes meanwhile.
const OPERATIONS: &str = "20000";

/// Run other projects' test suites in mirrored directories (pjdfstest, fsx, git, SQLite) and on volumes
/// (PostgreSQL)
///
/// This takes an hour, or half of that with TMPDIR in memory.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask conformance")]
struct Options {
    /// Run only the short form, as `cargo xtask test --full` does
    #[arg(long)]
    short: bool,

    /// Run only PostgreSQL on volumes whose daemon is killed
    #[arg(long)]
    postgresql: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    program::run(|| run(&options))
}

fn run(options: &Options) -> Result<()> {
    setup::ensure_ready(&[Purpose::Conformance])?;
    let extent = if options.short { &SHORT } else { &FULL };
    if options.postgresql {
        return databases(extent);
    }
    exercise(extent)?;
    databases(extent)?;
    if options.short {
        return Ok(());
    }
    println!("== Opens at the same time, for {RACE_SECONDS} s");
    command::run(tests("race::").env("VERIMOUNT_RACE_SECONDS", RACE_SECONDS))?;
    println!("== Three users, and a source that changes: {OPERATIONS} operations per mount");
    let mut three_users = tests("three_users::");
    command::run(three_users.env("VERIMOUNT_THREE_USERS_OPERATIONS", OPERATIONS))?;
    let Some(_switch) = Switch::turn(true) else {
        return Ok(());
    };
    println!("== The bridge's own tests, over io_uring");
    command::run(&mut tests(""))?;
    command::run(cargo("test").args(["--locked", "--workspace", "--test", "command", "bridge::"]))
}

/// The command that runs our own tests of mirrored directories with this name.
fn tests(name: &str) -> Command {
    let mut test = cargo("test");
    test.args(["--locked", "--workspace", "--test", "mirrored"])
        .args(["--", "--nocapture", name]);
    test
}

fn exercise(extent: &Extent) -> Result<()> {
    let target = target()?;
    let verimount = build_tested_verimount()?;
    let folder = shared_folder()?;
    let suites = Suites {
        pjdfstest: Pjdfstest::new(&target, folder.path())?,
        fsx: Fsx::new(&target, folder.path())?,
        transactions: extent.transactions,
    };
    println!("Exceptions in pjdfstest:\n{}", pjdfstest::exceptions());
    let mut failed = 0;
    for (kind, operations) in extent.for_this_user() {
        let source = Source::new(folder.path(), kind)?;
        failed += suites.run(&source, kind, operations, &verimount)?;
    }
    ensure!(failed == 0, "{failed} of them failed");
    Ok(())
}

/// Kills the daemon below a PostgreSQL, in each mode of a volume.
fn databases(extent: &Extent) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: PostgreSQL on volumes, as only root may use loop devices");
        return Ok(());
    }
    let verimount = build_tested_verimount()?;
    let mut failed = 0;
    for mode in postgresql::MODES {
        println!("== A volume in {} mode", mode.name);
        let folder = shared_folder()?;
        failed += report(postgresql::run(
            &verimount,
            folder.path(),
            mode,
            extent.kills,
        ))?;
    }
    ensure!(failed == 0, "{failed} of them failed");
    Ok(())
}

/// A new temporary folder, which other users can enter.
fn shared_folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("verimount-").tempdir()?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    Ok(folder)
}

impl Extent {
    /// The sources for users who may not make file systems.
    fn for_this_user(&self) -> Vec<(Kind, u32)> {
        if rustix::process::geteuid().is_root() {
            self.sources.to_vec()
        } else {
            vec![(Kind::Folder, self.sources[0].1)]
        }
    }
}

struct Suites {
    pjdfstest: Pjdfstest,
    fsx: Fsx,
    transactions: u32,
}

impl Suites {
    /// Runs all suites in a source, and in each way to mirror it; returns how many failed.
    fn run(&self, source: &Source, kind: Kind, operations: u32, verimount: &Path) -> Result<usize> {
        println!("== {}, as it is", kind.name());
        let native = self.pjdfstest.run(source, source.path())?;
        println!("  {}", native.summary());
        let mut failed = self.programs(source.path(), operations)?;
        for way in Way::all() {
            println!("== {}, {}", kind.name(), way.name());
            let bridge = way.bridge(verimount, source.path())?;
            if way.is_for_pjdfstest() {
                failed += report(self.compare(source, &native, bridge.path()))?;
            }
            failed += self.programs(bridge.path(), operations)?;
            failed += report(bridge.end().map(|()| "no errors in its log".to_owned()))?;
        }
        Ok(failed)
    }

    fn compare(&self, source: &Source, native: &Outcomes, directory: &Path) -> Result<String> {
        self.pjdfstest.run(source, directory)?.compare(native)
    }

    /// Runs the suites that must always pass; returns how many failed.
    fn programs(&self, directory: &Path, operations: u32) -> Result<usize> {
        let folder = directory.join("programs");
        fs::create_dir(&folder)?;
        let failed = report(self.fsx.run(&folder, operations))?
            + report(git::run(&folder))?
            + report(sqlite::run(&folder, self.transactions))?;
        remove(&folder)?;
        Ok(failed)
    }
}

/// Removes a directory with its contents.
fn remove(folder: &Path) -> Result<()> {
    let removed = fs::remove_dir_all(folder);
    removed.with_context(|| format!("removing {}", folder.display()))
}

/// Prints the result of a suite; returns how many failed: 0 or 1. A failure does not end the run, unless
/// it is an interruption.
fn report(result: Result<String>) -> Result<usize> {
    interrupt::check()?;
    match result {
        Ok(text) => println!("  {text}"),
        Err(error) => {
            println!("  FAILED: {error:#}");
            return Ok(1);
        }
    }
    Ok(0)
}

/// The output of `command`; if it fails, an error with all its output.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output();
    let output = output.with_context(|| format!("cannot run `{}`", command::describe(command)))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{}`: {}\n{text}{said}",
            command::describe(command),
            output.status
        );
    }
    Ok(text)
}
