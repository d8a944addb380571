//! The large file read from start to end.

use std::{cell::RefCell, path::Path, process::Command};

use anyhow::{Context, Result};

use super::{
    Large, Reading, Way,
    link::BITS_PER_SECOND,
    server::Answered,
    subjects::{OURS, Subject},
};
use crate::{
    lab::{Lab, User, ensure_same_file, has, seconds},
    report::{Bar, Compare, Report, with_range},
    rounds::{Contest, Samples, Spread},
    table::Table,
};

const CURL: &str = "curl";
const ARIA2: &str = "aria2c, 16 connections";

/// From a server on this machine.
pub(super) fn near(
    lab: &Lab,
    report: &mut Report,
    large: &Large,
    way: &Way<'_>,
    subjects: &[Subject],
) -> Result<()> {
    let costs = Costs::default();
    let samples = times(lab, report, large, way, subjects, &costs)?;
    costs.say(report, subjects)?;
    report.require(
        "cold `cat`, loopback: speed / curl",
        Bar::AtLeast(0.6),
        "x",
        samples.ratio(CURL, OURS)?,
    );
    let (requests, fetched) = costs.of(OURS)?;
    report.require(
        "cold `cat`: requests per GiB",
        Bar::AtMost(160.0),
        "",
        requests,
    );
    report.require(
        "cold `cat`: bytes fetched / read",
        Bar::AtMost(1.02),
        "x",
        fetched,
    );
    ahead_of_peers(report, &samples, way, subjects)
}

/// From a server at the end of a long link.
pub(super) fn far(
    lab: &Lab,
    report: &mut Report,
    large: &Large,
    way: &Way<'_>,
    subjects: &[Subject],
) -> Result<()> {
    let samples = times(lab, report, large, way, subjects, &Costs::default())?;
    let least = large.bytes as f64 * 8.0 / BITS_PER_SECOND;
    let Spread { median, min, max } = samples.spread(OURS)?;
    let rate = Spread {
        median: least / median,
        min: least / max,
        max: least / min,
    };
    let text = format!("cold `cat`, {}: speed / link", way.name);
    report.require(&text, Bar::AtLeast(0.9), "x", rate);
    ahead_of_peers(report, &samples, way, subjects)
}

fn times(
    lab: &Lab,
    report: &mut Report,
    large: &Large,
    way: &Way<'_>,
    subjects: &[Subject],
    costs: &Costs,
) -> Result<Samples> {
    let mut contest = Contest::default().variant(CURL, || {
        large.make_cold(lab)?;
        seconds(&mut way.curl(Large::FILE, Path::new("/dev/null")))
    });
    if has("aria2c") {
        contest = contest.variant(ARIA2, || {
            let folder = lab.new_folder()?;
            large.make_cold(lab)?;
            seconds(&mut aria2c(&way.url(Large::FILE), folder.path()))
        });
    } else {
        report.leave_out(ARIA2, "not installed");
    }
    let named = subjects.iter().map(|subject| (subject.name(), *subject));
    let samples = contest
        .variants(named, |subject| {
            let reading = cold(lab, large, way, subject, costs)?;
            Ok(reading.seconds_for(large.bytes))
        })
        .run_in(lab)?;
    let title = format!("Cold `cat` of {}, {}", large.size(), way.name);
    let bytes = large.bytes;
    report.times(&title, &samples, Compare::Speed { bytes })?;
    Ok(samples)
}

fn aria2c(url: &str, folder: &Path) -> Command {
    let mut aria2c = Command::new("aria2c");
    aria2c.args(["--quiet", "--no-conf", "--file-allocation=none"]);
    aria2c.args(["-x16", "-s16", "-k1M", "-d"]);
    aria2c.arg(folder).arg(url);
    aria2c
}

/// Reads the file through a new mount with a new cache.
fn cold(
    lab: &Lab,
    large: &Large,
    way: &Way<'_>,
    subject: Subject,
    costs: &Costs,
) -> Result<Reading> {
    way.server.take_answered()?;
    let mounted = subject.mount(lab, way, large)?;
    large.make_cold(lab)?;
    let reading = Reading::of(&mounted.file())?;
    if matches!(subject, Subject::Ours | Subject::Uncached) && reading.bytes == large.bytes {
        ensure_same_file(User::Caller, &large.plain, &mounted.file())?;
    }
    drop(mounted);
    let answered = way.server.take_answered()?;
    if lab.is_today() {
        costs.add(subject, reading, answered);
    }
    Ok(reading)
}

fn ahead_of_peers(
    report: &mut Report,
    samples: &Samples,
    way: &Way<'_>,
    subjects: &[Subject],
) -> Result<()> {
    for subject in subjects {
        if let Subject::Peer(_) = subject {
            let name = subject.name();
            let text = format!("cold `cat`, {}: speed / {name}", way.name);
            report.require(&text, Bar::AtLeast(1.0), "x", samples.ratio(name, OURS)?);
        }
    }
    Ok(())
}

/// What reading asked of the server, according to its log.
#[derive(Default)]
struct Costs(RefCell<Vec<(&'static str, Reading, Answered)>>);

impl Costs {
    fn add(&self, subject: Subject, reading: Reading, answered: Answered) {
        self.0
            .borrow_mut()
            .push((subject.name(), reading, answered));
    }

    /// Requests per GiB read, and bytes fetched for each that was read.
    fn of(&self, name: &str) -> Result<(Spread, Spread)> {
        let costs = self.0.borrow();
        let own = costs.iter().filter(|(own, ..)| *own == name);
        let spread = |figure: fn(f64, &Answered) -> f64| {
            let figures = own
                .clone()
                .map(|(_, reading, answered)| figure(reading.bytes as f64, answered));
            Spread::of(figures).with_context(|| format!("{name} was not measured"))
        };
        Ok((
            spread(|read, answered| answered.requests as f64 / read * f64::from(1 << 30))?,
            spread(|read, answered| answered.bytes as f64 / read)?,
        ))
    }

    fn say(&self, report: &mut Report, subjects: &[Subject]) -> Result<()> {
        let mut table = Table::new(["variant", "requests per GiB", "bytes fetched / read"]);
        for subject in subjects {
            let name = subject.name();
            let (requests, fetched) = self.of(name)?;
            table.row([name.to_owned(), with_range(requests), with_range(fetched)]);
        }
        report.section("Requests of a cold `cat`, with those of the mount");
        report.say(table);
        Ok(())
    }
}
