//! Kills the kernel while it writes to its volumes, and recovers them with Verimount.
//!
//! Most kills are simulated: while QEMU is paused, its disks have the same contents as after a kill at
//! that time.

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
use verimount_machine::{Kernel, Running};
use verimount_testkit::Random;

use self::{flushed::Flushed, kind::KINDS, volume::Volume};
use crate::{
    machine,
    report::{Line, Report},
};

const GROUP: &str = "killed";

/// How often the guest is paused; in the end it is killed.
const STOPS: usize = 24;

/// The longest time between two pauses, in milliseconds.
const MAX_PAUSE: usize = 500;

/// The seed for these times. The states of the guest differ from run to run nevertheless.
const SEED: u64 = 5;

/// The seed of the key of a journal's MAC.
const KEY_SEED: u64 = 7;

pub(crate) fn run(kernel: &Kernel, report: &mut Report) -> Result<()> {
    let folder = TempDir::new()?;
    let mut volumes = KINDS
        .iter()
        .enumerate()
        .map(|(number, kind)| Volume::new(number, kind, folder.path()))
        .collect::<Result<Vec<_>>>()?;
    let disks = volumes.iter().flat_map(Volume::disks);
    let machine = machine(kernel, "write-without-end")?.with_disks(disks);
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

/// The contents of the volumes' disks if the guest is killed now. It is resumed unless this is
/// `for_good`.
fn left_by_kill(
    guest: &mut Running,
    for_good: bool,
    volumes: &mut [Volume],
    report: &mut Report,
) -> Result<Vec<Vec<Vec<u8>>>> {
    let stopped = if for_good { guest.kill() } else { guest.stop() };
    // Every reported flush was before. Reports of further ones may be in transit.
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
