//! The kernel is killed in the middle of writing to its volumes, and we recover them.
//!
//! What a kill would leave is mostly found without one: while QEMU is stopped, its disks hold what
//! they would if it had ended there.

mod flushed;
mod kind;
mod model;
mod recovered;
mod sequence;
mod volume;
pub(crate) mod writer;

use std::{thread, time::Duration};

use anyhow::{Context, Result};
use tempfile::TempDir;
use verimount_testkit::Random;

use self::{flushed::Flushed, kind::KINDS, volume::Volume};
use crate::{
    debian_kernel::Kernel,
    machine::{Machine, Running},
    report::{Line, Report},
};

const GROUP: &str = "killed";

/// How often the guest is stopped; in the end it is killed.
const STOPS: usize = 24;

/// The longest time that the guest goes on for, in milliseconds.
const MAX_PAUSE: usize = 500;

/// What the times are chosen with; the moments are never the same.
const SEED: u64 = 5;

/// What the key of a journal's MAC is made with.
const KEY_SEED: u64 = 7;

pub(crate) fn run(kernel: &Kernel, report: &mut Report) -> Result<()> {
    let folder = TempDir::new()?;
    let mut volumes = KINDS
        .iter()
        .enumerate()
        .map(|(number, kind)| Volume::new(number, kind, folder.path()))
        .collect::<Result<Vec<_>>>()?;
    let disks = volumes.iter().flat_map(Volume::disks);
    let machine = Machine::new(kernel, "write-without-end")?.with_disks(disks);
    let mut guest = machine.start()?;
    while !volumes.iter().all(Volume::was_flushed) {
        let line = guest.line()?.context("the guest has ended")?;
        take(&line, &mut volumes, report);
    }
    let mut random = Random::new(SEED);
    for point in 0..=STOPS {
        thread::sleep(Duration::from_millis(random.below(MAX_PAUSE) as u64));
        let left = left_by_kill(&mut guest, point == STOPS, &mut volumes, report)?;
        for (volume, disks) in volumes.iter_mut().zip(left) {
            let test = format!("{}, point {point}", volume.describe());
            note(report, &test, volume.check(disks));
        }
    }
    for volume in &volumes {
        let (version, summary) = (kernel.version(), volume.summary());
        println!("Linux {version}: {GROUP}: {summary}");
        note(report, &volume.describe(), volume.ensure_telling());
    }
    Ok(())
}

/// What the volumes' disks hold if the guest is killed now. It goes on unless this is `for_good`.
fn left_by_kill(
    guest: &mut Running,
    for_good: bool,
    volumes: &mut [Volume],
    report: &mut Report,
) -> Result<Vec<Vec<Vec<u8>>>> {
    let stopped = match for_good {
        true => guest.kill(),
        false => guest.stop(),
    };
    // Every flush that is heard of was before. More of them may be on their way.
    for line in guest.heard() {
        take(&line, volumes, report);
    }
    stopped?;
    let left = volumes.iter().map(Volume::contents).collect();
    if !for_good {
        guest.go_on()?;
    }
    left
}

fn note(report: &mut Report, test: &str, result: Result<()>) {
    let why = result.err().map(|error| format!("{error:#}"));
    report.note(&match &why {
        None => Line::Passed { group: GROUP },
        Some(why) => Line::Failed {
            group: GROUP,
            test,
            why,
        },
    });
}

fn take(line: &str, volumes: &mut [Volume], report: &mut Report) {
    match Flushed::parse(line) {
        Some(Flushed { volume, generation }) => {
            if let Some(volume) = volumes.get_mut(volume) {
                volume.flush(generation);
            }
        }
        None => report.take(line),
    }
}
