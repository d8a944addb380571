//! `cargo xtask test`: checks and tests, cheapest first.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;
use verimount_support::{
    command, seaweedfs,
    setup::{self, Purpose},
    workspace::{cargo, target},
};
use verimount_testenv::{EXHAUSTIVE, tools::REQUIRE_TOOLS};

use crate::{
    deny, dist, features, fuzz,
    programs::Program,
    python,
    skips::Skips,
    steps::{check_at_once, check_sources, run_tests, step},
};

/// Check and test; stop at the first step that fails
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Run all tests: also check the dependencies, test mirrored directories' conformance and
    /// agreement with the kernel, with erofs-utils and with archivers, fuzz, try every changed byte below mounts, and simulate more crashes
    #[arg(long)]
    full: bool,
    /// Skip steps of --full that would not end within this many minutes
    #[arg(long, value_name = "N", requires = "full")]
    minutes: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let start = Instant::now();
    setup::ensure_ready(&[Purpose::Test])?;
    let target = target()?;
    let skips = Skips::new(&target)?;
    check_at_once()?;
    let path = command::path_with(&seaweedfs::installed(&target)?)?;
    run_tests(&skips, |test| {
        test.env("PATH", &path).env(REQUIRE_TOOLS, "1");
        if options.full {
            test.env(EXHAUSTIVE, "1");
        }
    })?;
    check_sources(&target)?;
    if !options.full {
        return skips.print();
    }
    let end = options.minutes.map(|minutes| start + minutes_long(minutes));
    for (name, does, minutes, work) in FURTHER_STEPS {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        match left {
            Some(left) if left < minutes_long(minutes) => println!(
                "== {name}: SKIPPED: it can take {minutes} minutes, and {} are left\n",
                left.as_secs() / 60
            ),
            _ => step(name, does, || work(&target))?,
        }
    }
    skips.print()
}

/// The steps of the full test only: name, what it does, the minutes that it can take on a busy machine with two
/// processors, and the work, which gets the folder for build results.
type FurtherStep = (&'static str, &'static str, u64, fn(&Path) -> Result<()>);

const FURTHER_STEPS: [FurtherStep; 12] = [
    (
        "Dependencies",
        "licences, sources and advisories",
        5,
        deny::check,
    ),
    (
        "Packages",
        "whether every crate for others can be published",
        2,
        |_| check_packages(),
    ),
    (
        "Conformance of mirrored directories",
        "other projects' test suites, in short",
        6,
        |_| Program::Conformance.run(&["--short"]),
    ),
    (
        "Agreement on EROFS images",
        "with the kernel and erofs-utils, in short",
        4,
        |_| Program::Agreement.run(&["--short"]),
    ),
    (
        "Agreement on tar archives",
        "with GNU tar, libarchive, Python and Go",
        4,
        |_| Program::Archives.run(&["--count", "2000"]),
    ),
    ("Layers of containers", "with what podman shows", 4, |_| {
        Program::Containers.run(&["--images", "3"])
    }),
    ("Signed models", "with model_signing", 6, |_| {
        Program::Models.run(&[])
    }),
    (
        "Kernel",
        "boots Debian's kernels, which read what Verimount writes",
        25,
        |_| Program::KernelTest.run(&[]),
    ),
    (
        "Fuzz targets",
        "compiles them, and runs each for a minute",
        14,
        |target| fuzz::run(&fuzz::folder(target)),
    ),
    (
        "Installation",
        "makes what is published, installs it in a fresh Debian, uses and removes it",
        25,
        |target| {
            dist::make(&target.join("dist"))?;
            Program::Installation.run(&[])
        },
    ),
    (
        "Python",
        "makes the wheel, and tests it with each Python",
        20,
        |_| python::test(),
    ),
    (
        "Features of the library",
        "tests it with each alone",
        4,
        |_| {
            features::alone("test")
                .try_for_each(|mut test| command::run(test.args(["--lib", "--tests"])))
        },
    ),
];

/// Checks that every crate for others can be published: its description, README, and that whatever it
/// depends on has a version. What is packaged is not compiled again.
fn check_packages() -> Result<()> {
    let mut publish = cargo("publish");
    publish.args(["--dry-run", "--no-verify", "--allow-dirty"]);
    command::run(publish.args(["--workspace", "--locked"]))
}

fn minutes_long(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}
