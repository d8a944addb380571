//! The speed of reading and writing disks.

use anyhow::{Context, Result};

use super::subjects::{BITMAP, DIRECT, Disk, JOURNAL, NBDKIT, RELAYED, Storage, Subject};
use crate::{
    fio,
    lab::{Lab, has},
    report::{Bar, Compare, Report, mebibytes},
    rounds::{Contest, Samples},
};

/// The size of random requests, in bytes.
const BLOCK: u64 = 4096;

/// A workload on a disk.
struct Job {
    name: &'static str,
    pattern: Pattern,
    is_read: bool,
    /// The least speed in direct and bitmap mode, as a multiple of an unchecked disk's.
    least: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    Sequential,
    Random,
}

const JOBS: [Job; 4] = [
    Job {
        name: "write",
        pattern: Pattern::Sequential,
        is_read: false,
        least: 0.8,
    },
    Job {
        name: "read",
        pattern: Pattern::Sequential,
        is_read: true,
        least: 0.85,
    },
    Job {
        name: "randwrite",
        pattern: Pattern::Random,
        is_read: false,
        least: 0.7,
    },
    Job {
        name: "randread",
        pattern: Pattern::Random,
        is_read: true,
        least: 0.7,
    },
];

/// The least speed of writes in journal mode.
const JOURNAL_LEAST: f64 = 0.4;

/// Disks that are accessed in the same way, and the unchecked one among them.
struct Field {
    name: &'static str,
    subjects: Vec<Subject>,
    unchecked: &'static str,
}

/// A subject in a contest, with its disk's storage if that is made only once.
struct Contender<'a> {
    subject: &'a Subject,
    full: Option<Storage>,
}

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
    let files = Subject::FILES.into_iter().chain(Subject::OF_BTRFS);
    let fields = [
        Field {
            name: "As a file",
            subjects: present(files, report),
            unchecked: RELAYED,
        },
        Field {
            name: "Over NBD",
            subjects: present(Subject::SERVED, report),
            unchecked: NBDKIT,
        },
    ];
    for field in &fields {
        let is_unchecked = |subject: &Subject| subject.name == field.unchecked;
        if field.subjects.iter().any(is_unchecked) {
            JOBS.iter()
                .try_for_each(|job| job.compare(lab, field, report))?;
        }
    }
    Ok(())
}

/// Those of `subjects` that can be measured here.
fn present(subjects: impl IntoIterator<Item = Subject>, report: &mut Report) -> Vec<Subject> {
    let mut present = Vec::new();
    for subject in subjects {
        match subject.lacks() {
            Some(program) => {
                report.leave_out(subject.name, &format!("{program} is not installed"));
            }
            None => present.push(subject),
        }
    }
    present
}

impl Job {
    fn compare(&self, lab: &Lab, field: &Field, report: &mut Report) -> Result<()> {
        let contenders: Vec<Contender<'_>> = field
            .subjects
            .iter()
            .map(|subject| self.contender(lab, subject))
            .collect::<Result<_>>()?;
        let named = contenders
            .iter()
            .map(|contender| (contender.subject.name, contender));
        let samples = Contest::default()
            .variants(named, |contender| self.seconds(lab, contender))
            .run_in(lab)?;
        let bytes = self.bytes(lab);
        let title = format!(
            "{}, {} MiB: {}",
            field.name,
            mebibytes(bytes),
            self.describe()
        );
        report.times(&title, &samples, Compare::Speed { bytes })?;
        self.require(report, field, &samples)
    }

    fn describe(&self) -> String {
        let way = if self.is_read {
            "cold"
        } else {
            "with fsync at the end"
        };
        match self.pattern {
            Pattern::Sequential => format!("{} of 64 KiB, {way}", self.name),
            Pattern::Random => format!("{} of 4 KiB, 16 at once, {way}", self.name),
        }
    }

    fn bytes(&self, lab: &Lab) -> u64 {
        match self.pattern {
            Pattern::Sequential => lab.sizes.measured_disk,
            Pattern::Random => lab.sizes.random_reads * BLOCK,
        }
    }

    /// Fills a disk, unless this job is to write a new one.
    fn contender<'a>(&self, lab: &Lab, subject: &'a Subject) -> Result<Contender<'a>> {
        let size = lab.sizes.measured_disk;
        let full = match (self.pattern, self.is_read) {
            (Pattern::Sequential, false) => None,
            _ => {
                let storage = subject.storage(lab, size)?;
                storage.disk(lab)?.fill(size)?;
                Some(storage)
            }
        };
        Ok(Contender { subject, full })
    }

    /// The time in seconds.
    fn seconds(&self, lab: &Lab, contender: &Contender<'_>) -> Result<f64> {
        let size = lab.sizes.measured_disk;
        match &contender.full {
            Some(storage) => {
                lab.make_cold(size)?;
                self.seconds_of(lab, &storage.disk(lab)?)
            }
            None => {
                let storage = contender.subject.storage(lab, size)?;
                lab.make_cold(size)?;
                self.seconds_of(lab, &storage.disk(lab)?)
            }
        }
    }

    fn seconds_of(&self, lab: &Lab, disk: &Disk) -> Result<f64> {
        let mut fio = match self.pattern {
            Pattern::Sequential => disk.fio("psync"),
            Pattern::Random => disk.fio("libaio"),
        };
        fio.args(match self.pattern {
            Pattern::Sequential => &["--bs=64k"][..],
            Pattern::Random => &["--bs=4k", "--iodepth=16", "--direct=1"],
        });
        fio.arg(format!("--rw={}", self.name)).arg("--end_fsync=1");
        fio.arg(format!("--size={}", lab.sizes.measured_disk));
        fio.arg(format!("--io_size={}", self.bytes(lab)));
        let done = fio::job(&mut fio)?;
        let milliseconds = done["job_runtime"].as_f64().context("no time")?;
        Ok(milliseconds / 1e3)
    }

    fn require(&self, report: &mut Report, field: &Field, samples: &Samples) -> Result<()> {
        for name in [DIRECT, BITMAP, JOURNAL] {
            let least = match (name, self.is_read) {
                (JOURNAL, false) => JOURNAL_LEAST,
                _ => self.least,
            };
            let text = format!("{}, {name}: speed / {}", self.name, field.unchecked);
            let ratio = samples.ratio(field.unchecked, name)?;
            report.require(&text, Bar::AtLeast(least), "x", ratio);
        }
        Ok(())
    }
}
