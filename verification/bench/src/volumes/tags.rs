//! Reads and writes besides those of the data.

use anyhow::Result;

use super::subjects::{Disk, JOURNAL, Subject};
use crate::{
    fio,
    lab::{Lab, has},
    report::{Bar, Report, figure, mebibytes},
    rounds::Spread,
    table::Table,
};

/// A pattern of writes.
struct Job {
    name: &'static str,
    options: &'static [&'static str],
    /// Bytes of a write.
    block: u64,
    /// The most read requests per MiB.
    most_reads: Option<f64>,
    /// The most bytes read, as a multiple of all tags.
    most_tags_read: Option<f64>,
    /// The most bytes written, as a multiple of the data: in journal mode, and in other modes.
    most_written: Option<[f64; 2]>,
}

const JOBS: [Job; 3] = [
    Job {
        name: "64 KiB in order, one flush",
        options: &["--rw=write"],
        block: 65_536,
        most_reads: Some(0.0),
        most_tags_read: None,
        most_written: Some([2.05, 1.002]),
    },
    Job {
        name: "64 KiB in order, a flush every MiB",
        options: &["--rw=write", "--fsync=16"],
        block: 65_536,
        most_reads: Some(2.0),
        most_tags_read: None,
        most_written: None,
    },
    Job {
        name: "4 KiB at random, one flush",
        options: &["--rw=randwrite"],
        block: 4096,
        most_reads: None,
        most_tags_read: Some(1.0),
        most_written: None,
    },
];

/// Bytes of data per byte of tags, in volumes with default parameters.
const DATA_PER_TAG: f64 = 1024.0;

/// The requests of a run.
struct Cost {
    reads: u64,
    read_bytes: u64,
    written_bytes: u64,
    flushes: u64,
}

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let bytes = lab.sizes.bridged_file;
    let title = format!("Requests for writing {} MiB to a new volume", bytes >> 20);
    if !has("fio") {
        report.leave_out(&title, "fio is not installed");
        return Ok(());
    }
    let subjects = Subject::VOLUMES.iter().chain([&Subject::READ_BACK]);
    let mut table = Table::new([
        "writes",
        "variant",
        "reads",
        "bytes read",
        "written / data",
        "flushes",
    ]);
    for job in &JOBS {
        for subject in subjects.clone() {
            let cost = job.cost(lab, subject)?;
            table.row([
                job.name.to_owned(),
                subject.name.to_owned(),
                cost.reads.to_string(),
                cost.read_bytes.to_string(),
                figure(cost.written_bytes as f64 / bytes as f64),
                cost.flushes.to_string(),
            ]);
            if subject.name != Subject::READ_BACK.name {
                job.require(report, subject, &cost, bytes);
            }
        }
    }
    report.section(&title);
    report.say(table);
    Ok(())
}

impl Job {
    fn require(&self, report: &mut Report, subject: &Subject, cost: &Cost, bytes: u64) {
        let data = bytes as f64;
        let most_written = self
            .most_written
            .map(|[journal, other]| match subject.name {
                JOURNAL => journal,
                _ => other,
            });
        let read = cost.read_bytes as f64 * DATA_PER_TAG;
        for (what, most, figure) in [
            (
                "reads for each MiB",
                self.most_reads,
                cost.reads as f64 / mebibytes(bytes),
            ),
            ("bytes read / tags", self.most_tags_read, read / data),
            (
                "bytes written / data",
                most_written,
                cost.written_bytes as f64 / data,
            ),
        ] {
            if let Some(most) = most {
                let text = format!("{}, {}: {what}", self.name, subject.name);
                report.require(&text, Bar::AtMost(most), "", Spread::exact(figure));
            }
        }
    }

    fn cost(&self, lab: &Lab, subject: &Subject) -> Result<Cost> {
        let bytes = lab.sizes.bridged_file;
        let storage = subject.storage(lab, bytes)?;
        let disk = storage.disk(lab)?;
        // Opening reads the superblock and some blocks.
        let before = Cost::of(lab, &disk)?;
        let mut fio = disk.fio("psync");
        fio.args(self.options).arg(format!("--bs={}", self.block));
        fio.args(["--end_fsync=1", "--randrepeat=1"]);
        fio::job(fio.arg(format!("--size={bytes}")))?;
        let after = Cost::of(lab, &disk)?;
        Ok(Cost {
            reads: after.reads - before.reads,
            read_bytes: after.read_bytes - before.read_bytes,
            written_bytes: after.written_bytes - before.written_bytes,
            flushes: after.flushes - before.flushes,
        })
    }
}

impl Cost {
    fn of(lab: &Lab, disk: &Disk) -> Result<Self> {
        let counter = |name: &str| disk.counter(lab, &format!("storage/{name}"));
        Ok(Self {
            reads: counter("reads")?,
            read_bytes: counter("read_bytes")?,
            written_bytes: counter("written_bytes")?,
            flushes: counter("flushes")?,
        })
    }
}
