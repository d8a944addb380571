//! The number of requests to the daemon for each operation. These are counts, and so exact.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use anyhow::{Context, Result};
use rustix::fs::{Stat, lstat};

use super::subjects::{EXCLUSIVE, OURS, RELAY, Subject};
use crate::{
    fuse_trace::{FuseTrace, Requests},
    lab::Lab,
    report::{Bar, Report},
    rounds::Spread,
    table::Table,
};

const TITLE: &str = "Round trips per operation";

/// The content of each file.
const CONTENT: [u8; 4096] = [b'v'; 4096];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Lookup,
    Stat,
    Open,
    Read,
    FirstWrite,
    Write,
    Close,
    Create,
    Unlink,
    OpenReadClose,
}

impl Operation {
    const ALL: [(Self, &str); 10] = [
        (Self::Lookup, "lookup"),
        (Self::Stat, "stat"),
        (Self::Open, "open"),
        (Self::Read, "read"),
        (Self::FirstWrite, "first write"),
        (Self::Write, "write"),
        (Self::Close, "close"),
        (Self::Create, "create"),
        (Self::Unlink, "unlink"),
        (Self::OpenReadClose, "open-read-close"),
    ];

    /// Performs it on `file`, which the kernel does not know yet. Preparations, such as the lookup before an
    /// open, are done first and not counted.
    fn count(self, trace: &FuseTrace, file: &Path) -> Result<Requests> {
        match self {
            Self::Lookup => trace.requests_of(|| stat(file)),
            Self::Stat => {
                stat(file)?;
                trace.requests_of(|| stat(file))
            }
            Self::Open => {
                stat(file)?;
                trace.requests_of(|| File::open(file))
            }
            Self::Read => {
                let file = File::open(file)?;
                trace.requests_of(|| read(&file))
            }
            Self::FirstWrite => {
                let file = File::options().write(true).open(file)?;
                trace.requests_of(|| file.write_all_at(&CONTENT, 0))
            }
            Self::Write => {
                let file = File::options().write(true).open(file)?;
                file.write_all_at(&CONTENT, 0)?;
                trace.requests_of(|| file.write_all_at(&CONTENT, 0))
            }
            Self::Close => {
                let file = File::open(file)?;
                trace.requests_of(|| {
                    drop(file);
                    Ok(())
                })
            }
            Self::Create => trace.requests_of(|| File::create_new(file.with_extension("new"))),
            Self::Unlink => {
                stat(file)?;
                trace.requests_of(|| fs::remove_file(file))
            }
            Self::OpenReadClose => {
                read(&File::open(file)?)?;
                trace.requests_of(|| read(&File::open(file)?))
            }
        }
    }
}

/// As most programs do it; the standard library reads the birth time as well, which takes one more
/// request.
fn stat(file: &Path) -> io::Result<Stat> {
    Ok(lstat(file)?)
}

fn read(file: &File) -> io::Result<()> {
    let mut found = [0; CONTENT.len()];
    file.read_exact_at(&mut found, 0)?;
    if found == CONTENT {
        Ok(())
    } else {
        Err(io::Error::other("other bytes were read"))
    }
}

pub(super) fn run(lab: &Lab, report: &mut Report, subjects: &[Subject]) -> Result<()> {
    if !lab.is_root() || !FuseTrace::is_possible() {
        report.leave_out(TITLE, FuseTrace::OBSTACLE);
        return Ok(());
    }
    let counts: Vec<_> = subjects
        .iter()
        .map(|subject| count(lab, subject))
        .collect::<Result<_>>()?;
    report.section(TITLE);
    report.say(numbers(subjects, &counts));
    report.say("`1 + 1`: one for which a program waits, and one for which none does.\n");
    report.say(names(subjects, &counts));
    for (subject, counts) in subjects.iter().zip(&counts) {
        if [OURS, RELAY, EXCLUSIVE].contains(&subject.name) {
            let [.., open_read_close] = counts;
            let text = format!("round trips of an open-read-close, {}", subject.name);
            let exact = open_read_close.awaited.len() as f64;
            report.require(&text, Bar::AtMost(1.0), "", Spread::exact(exact));
        }
    }
    Ok(())
}

type Counts = [Requests; Operation::ALL.len()];

/// Performs each operation once, each on its own file.
fn count(lab: &Lab, subject: &Subject) -> Result<Counts> {
    let source = lab.new_folder()?;
    for (_, name) in Operation::ALL {
        fs::write(source.path().join(name), CONTENT)?;
    }
    let mirror = subject.open(lab, source.path())?;
    let trace = FuseTrace::new(mirror.path())?;
    let mut counts = Counts::default();
    for ((operation, name), requests) in Operation::ALL.into_iter().zip(&mut counts) {
        let file = mirror.path().join(name);
        *requests = operation
            .count(&trace, &file)
            .with_context(|| format!("{name} through {}", subject.name))?;
    }
    Ok(counts)
}

fn numbers(subjects: &[Subject], counts: &[Counts]) -> Table {
    let names = subjects.iter().map(|subject| subject.name);
    let mut table = Table::new(["operation"].into_iter().chain(names));
    for (index, (_, name)) in Operation::ALL.into_iter().enumerate() {
        let cell = |counts: &Counts| {
            let Requests { awaited, unawaited } = &counts[index];
            match unawaited.len() {
                0 => awaited.len().to_string(),
                further => format!("{} + {further}", awaited.len()),
            }
        };
        let cells = counts.iter().map(cell);
        table.row([name.to_owned()].into_iter().chain(cells));
    }
    table
}

fn names(subjects: &[Subject], counts: &[Counts]) -> Table {
    let mut table = Table::new([
        "open-read-close of a known file",
        "somebody waits for",
        "nobody waits for",
    ]);
    for (subject, [.., Requests { awaited, unawaited }]) in subjects.iter().zip(counts) {
        table.row([
            subject.name.to_owned(),
            awaited.join(", "),
            unawaited.join(", "),
        ]);
    }
    table
}
