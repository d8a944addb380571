use anyhow::{Context, Result};

use super::subjects::{BITMAP, DIRECT, Disk, JOURNAL, RELAYED, Subject};
use crate::bench::{
    fio::{self, fio},
    lab::{Lab, has},
    report::{Bar, Compare, Report, mebibytes},
    rounds::{Contest, Samples},
};

/// Bytes that random requests have.
const BLOCK: u64 = 4096;

/// What is done with a disk.
struct Job {
    name: &'static str,
    options: &'static [&'static str],
    is_read: bool,
    is_random: bool,
    /// The least speed in direct and bitmap mode, as a multiple of an unchecked file's.
    least: f64,
}

const SEQUENTIAL: &[&str] = &["--ioengine=psync", "--bs=64k", "--end_fsync=1"];
const RANDOM: &[&str] = &[
    "--ioengine=libaio",
    "--iodepth=16",
    "--direct=1",
    "--bs=4k",
    "--end_fsync=1",
];

const JOBS: [Job; 4] = [
    Job {
        name: "write",
        options: SEQUENTIAL,
        is_read: false,
        is_random: false,
        least: 0.8,
    },
    Job {
        name: "read",
        options: SEQUENTIAL,
        is_read: true,
        is_random: false,
        least: 0.85,
    },
    Job {
        name: "randwrite",
        options: RANDOM,
        is_read: false,
        is_random: true,
        least: 0.7,
    },
    Job {
        name: "randread",
        options: RANDOM,
        is_read: true,
        is_random: true,
        least: 0.7,
    },
];

/// The least speed of writes in journal mode.
const JOURNAL_LEAST: f64 = 0.4;

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let title = "Reads and writes of a disk";
    if !has("fio") {
        report.leave_out(title, "fio is not installed");
        return Ok(());
    }
    if !lab.is_root() {
        report.leave_out(title, Lab::NEEDS_ROOT);
        return Ok(());
    }
    for job in &JOBS {
        let subjects = Subject::ALL;
        let named = subjects.iter().map(|subject| (subject.name, subject));
        let samples = Contest::default()
            .variants(named, |subject| job.seconds(lab, subject))
            .run(lab.rounds)?;
        let bytes = job.bytes(lab);
        let title = format!("{} MiB, {}", mebibytes(bytes), job.describe());
        report.times(&title, &samples, Compare::Speed { bytes })?;
        job.require(report, &samples)?;
    }
    Ok(())
}

impl Job {
    fn describe(&self) -> String {
        let way = if self.is_read {
            "cold"
        } else {
            "with fsync at the end"
        };
        match self.is_random {
            true => format!("{} of 4 KiB, 16 at once, {way}", self.name),
            false => format!("{} of 64 KiB, {way}", self.name),
        }
    }

    fn bytes(&self, lab: &Lab) -> u64 {
        match self.is_random {
            true => lab.sizes.random_reads * BLOCK,
            false => lab.sizes.bridged_file,
        }
    }

    /// How many seconds it takes with a disk that is new, or for reads, full.
    fn seconds(&self, lab: &Lab, subject: &Subject) -> Result<f64> {
        let size = lab.sizes.bridged_file;
        let disk = subject.disk(lab, size)?;
        if self.is_read || self.is_random {
            fill(&disk, size)?;
        }
        lab.make_cold(size)?;
        let mut fio = fio(disk.path());
        fio.arg(format!("--rw={}", self.name)).args(self.options);
        fio.arg(format!("--size={size}"));
        fio.arg(format!("--io_size={}", self.bytes(lab)));
        let done = fio::job(&mut fio)?;
        let milliseconds = done["job_runtime"].as_f64().context("no time")?;
        Ok(milliseconds / 1e3)
    }

    fn require(&self, report: &mut Report, samples: &Samples) -> Result<()> {
        for name in [DIRECT, BITMAP, JOURNAL] {
            let least = match (name, self.is_read) {
                (JOURNAL, false) => JOURNAL_LEAST,
                _ => self.least,
            };
            let text = format!("{}, {name}: speed / {RELAYED}", self.name);
            let ratio = samples.ratio(RELAYED, name)?;
            report.require(&text, Bar::AtLeast(least), "x", ratio);
        }
        Ok(())
    }
}

/// Writes all of a disk.
pub(super) fn fill(disk: &Disk, bytes: u64) -> Result<()> {
    let mut fio = fio(disk.path());
    fio.args(["--rw=write", "--bs=1m", "--end_fsync=1"]);
    fio::job(fio.arg(format!("--size={bytes}")))?;
    Ok(())
}
