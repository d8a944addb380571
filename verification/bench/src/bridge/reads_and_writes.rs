//! fio reads and writes one file.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::subjects::{NATIVE, PASSTHROUGH, Subject};
use crate::{
    data,
    fio::{self, fio},
    lab::{Lab, User, ensure_same_file, has},
    report::{Bar, Report, figure, mebibytes},
    rounds::{Contest, Samples, Spread},
    table::Table,
};

const TITLE: &str = "Reads and writes of one file";

const NAME: &str = "large.bin";

/// How fio reads and writes.
struct Engine {
    name: &'static str,
    options: &'static [&'static str],
    jobs: &'static [Job],
    /// The speeds in the table of 2020.
    in_2020: Option<&'static str>,
}

struct Job {
    name: &'static str,
    options: [&'static str; 2],
    /// The least speed of a file that is passed through, as a multiple of the native one.
    least: f64,
}

const fn job_of(name: &'static str, options: [&'static str; 2], least: f64) -> Job {
    Job {
        name,
        options,
        least,
    }
}

const JOBS: &[Job] = &[
    job_of("read 4 KiB", ["--rw=read", "--bs=4k"], 0.95),
    job_of("randread 4 KiB", ["--rw=randread", "--bs=4k"], 0.95),
    job_of("write 4 KiB", ["--rw=write", "--bs=4k"], 0.9),
    job_of("randwrite 4 KiB", ["--rw=randwrite", "--bs=4k"], 0.9),
    job_of("read 1 MiB", ["--rw=read", "--bs=1m"], 0.95),
    job_of("write 1 MiB", ["--rw=write", "--bs=1m"], 0.9),
];

const MAPPED_JOBS: &[Job] = &[
    job_of("read 4 KiB", ["--rw=read", "--bs=4k"], 0.95),
    job_of("write 4 KiB", ["--rw=write", "--bs=4k"], 0.95),
];

/// On a RAM disk, with a file of 20 GiB.
const SYNC_IN_2020: &str = "Table 2, of 2020, MiB/s with 4 KiB, relayed, passed through and native: \
    read 1341, 1485, 1634; randread 43, 643, 715; write 49, 1304, 1363; randwrite 27, 763, 790.\n";

const ENGINES: [Engine; 4] = [
    Engine {
        name: "sync",
        options: &["--ioengine=sync"],
        jobs: JOBS,
        in_2020: Some(SYNC_IN_2020),
    },
    Engine {
        name: "libaio",
        options: &["--ioengine=libaio", "--iodepth=32"],
        jobs: JOBS,
        in_2020: None,
    },
    Engine {
        name: "io_uring",
        options: &["--ioengine=io_uring", "--iodepth=32"],
        jobs: JOBS,
        in_2020: None,
    },
    Engine {
        name: "mmap",
        options: &["--ioengine=mmap"],
        jobs: MAPPED_JOBS,
        in_2020: None,
    },
];

pub(super) fn run(lab: &Lab, report: &mut Report, subjects: &[Subject]) -> Result<()> {
    if !has("fio") {
        report.leave_out(TITLE, "fio is not installed");
        return Ok(());
    }
    let source = lab.path("bridged");
    fs::create_dir(&source)?;
    // From here on the file is in the page cache: no read waits for a disk.
    data::write_file(&source.join(NAME), lab.sizes.bridged_file)?;
    let bench = Bench {
        lab,
        source,
        relayed: RefCell::default(),
    };
    for engine in &ENGINES {
        bench.measure(report, subjects, engine)?;
    }
    bench.say_relayed(report)
}

struct Bench<'l> {
    lab: &'l Lab,
    source: PathBuf,
    /// How many requests reached today's bridges while fio ran, by subject.
    relayed: RefCell<BTreeMap<&'static str, u64>>,
}

impl Bench<'_> {
    fn measure(&self, report: &mut Report, subjects: &[Subject], engine: &Engine) -> Result<()> {
        let mut contests = Vec::new();
        for job in engine.jobs {
            let named = subjects.iter().map(|subject| (subject.name, subject));
            let samples = Contest::default()
                .variants(named, |subject| self.rate(subject, engine, job))
                .run_in(self.lab)?;
            contests.push((job, samples));
        }
        let size = mebibytes(self.lab.sizes.bridged_file);
        report.section(&format!("{TITLE} of {size} MiB, {}", engine.name));
        report.say(table(subjects, &contests)?);
        if let Some(in_2020) = engine.in_2020 {
            report.say(in_2020);
        }
        for (job, samples) in &contests {
            let title = format!("{} {}", engine.name, job.name);
            report.keep(&title, "MiB/s", samples)?;
            if let Ok(ratio) = samples.ratio(PASSTHROUGH, NATIVE) {
                let text = format!("{title}, passthrough: speed / native");
                report.require(&text, Bar::AtLeast(job.least), "x", ratio);
            }
        }
        Ok(())
    }

    /// MiB per second by fio's own clock, on a new mount: the file is in the source's page cache, but not in
    /// the mount's.
    fn rate(&self, subject: &Subject, engine: &Engine, job: &Job) -> Result<f64> {
        let mirror = subject.open(self.lab, &self.source)?;
        let file = mirror.path().join(NAME);
        // Earlier writes must not be written back during this run.
        rustix::fs::sync();
        let rate = rate(&file, self.lab.sizes.bridged_file, engine, job)?;
        let relayed = subject.relayed(self.lab, &mirror)?;
        if let Some(relayed) = relayed.filter(|_| self.lab.is_today()) {
            *self.relayed.borrow_mut().entry(subject.name).or_default() += relayed;
        }
        ensure_same_file(User::Caller, &self.source.join(NAME), &file)?;
        Ok(rate)
    }

    fn say_relayed(&self, report: &mut Report) -> Result<()> {
        let relayed = self.relayed.borrow();
        let mut table = Table::new(["variant", "reads and writes that its process saw"]);
        for (name, requests) in &*relayed {
            table.row([(*name).to_owned(), requests.to_string()]);
        }
        report.section("Requests of all these reads and writes");
        report.say(table);
        if let Some(requests) = relayed.get(PASSTHROUGH) {
            let text = "reads and writes that the process saw, passthrough";
            report.require(text, Bar::AtMost(0.0), "", Spread::exact(*requests as f64));
        }
        Ok(())
    }
}

fn rate(file: &Path, bytes: u64, engine: &Engine, job: &Job) -> Result<f64> {
    /// The time in seconds after which slow runs are stopped.
    const LONGEST: u64 = 2;
    let mut fio = fio(file);
    fio.args(engine.options).args(job.options);
    // Without dropping caches, and in the existing file.
    fio.args(["--invalidate=0", "--overwrite=1", "--allow_file_create=0"]);
    fio.arg(format!("--filesize={bytes}"))
        .arg(format!("--runtime={LONGEST}"));
    let done = fio::job(&mut fio)?;
    let speed = |way: &str| done[way]["bw_bytes"].as_u64();
    let (read, written) = speed("read").zip(speed("write")).context("no speed")?;
    Ok(mebibytes(read + written))
}

/// A row per job: speeds, and their multiples of the native one.
fn table(subjects: &[Subject], contests: &[(&Job, Samples)]) -> Result<Table> {
    let names = subjects.iter().map(|subject| subject.name);
    let mut table = Table::new(["MiB/s (/ native)"].into_iter().chain(names));
    for (job, samples) in contests {
        let mut cells = vec![job.name.to_owned()];
        for name in samples.names() {
            let speed = samples.spread(name)?.median;
            let ratio = samples.ratio(name, NATIVE)?.median;
            cells.push(format!("{speed:.0} ({})", figure(ratio)));
        }
        table.row(cells);
    }
    Ok(table)
}
