//! The processor time of reading the large file, with all processes on the client's side.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use verimount_support::command;

use super::{
    Large, Way,
    subjects::{OURS, Subject},
};
use crate::{
    lab::{Lab, has},
    report::{Bar, Compare, Report},
    rounds::Contest,
};

const THEIRS: &str = "curl, openssl dgst -sha256";

pub(super) fn run(lab: &Lab, report: &mut Report, large: &Large, way: &Way<'_>) -> Result<()> {
    let title = format!("Processor time of a cold `cat` of {}", large.size());
    if !has("time") {
        report.leave_out(&title, "time is not installed");
        return Ok(());
    }
    let samples = Contest::default()
        .variant(THEIRS, || {
            let copy = lab.path("copy.bin");
            large.make_cold(lab)?;
            let fetching = processor_seconds(&way.curl(Large::FILE, &copy))?;
            let mut hash = Command::new("openssl");
            hash.args(["dgst", "-sha256"]).arg(&copy);
            let hashing = processor_seconds(&hash)?;
            fs::remove_file(copy)?;
            Ok(fetching + hashing)
        })
        .variants(
            [Subject::Ours, Subject::Uncached].map(|subject| (subject.name(), subject)),
            |subject| {
                let mounted = subject.mount(lab, way, large)?;
                large.make_cold(lab)?;
                let before = mounted.mount.processor_seconds()?;
                let reading = processor_seconds(Command::new("cat").arg(mounted.file()))?;
                Ok(reading + mounted.mount.processor_seconds()? - before)
            },
        )
        .run_in(lab)?;
    report.times(&title, &samples, Compare::Time)?;
    report.require(
        "cold `cat`, loopback: processor time / curl and openssl",
        Bar::AtMost(2.0),
        "x",
        samples.ratio(OURS, THEIRS)?,
    );
    Ok(())
}

/// Runs `command` without showing its output; returns its time on processors in seconds.
fn processor_seconds(command: &Command) -> Result<f64> {
    let report = tempfile::NamedTempFile::new()?;
    let mut time = Command::new("time");
    time.args(["--quiet", "--format=%U %S", "--output"]);
    time.arg(report.path()).arg(command.get_program());
    command::run(time.args(command.get_args()).stdout(Stdio::null()))?;
    parse(report.path()).context("what `time` reports")
}

fn parse(report: &Path) -> Result<f64> {
    let text = fs::read_to_string(report)?;
    let times = text.split_whitespace().map(str::parse::<f64>);
    Ok(times.sum::<Result<f64, _>>()?)
}
