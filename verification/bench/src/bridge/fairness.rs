//! How long a user of a shared bridge waits while another one takes as much as possible.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use anyhow::Result;

use super::hog::Hog;
use crate::{
    lab::{Lab, has, seconds},
    mounts,
    report::{Bar, Compare, Report},
    rounds::{Contest, Samples},
};

const TITLE: &str = "`cat` of a small file beside another user of a shared bridge";

/// What the other user takes, and its name in the table.
const TAKEN: [(&str, &str); 3] = [
    ("files", "20000 opens"),
    ("leases", "64 opens that wait for leases"),
    ("pipes", "64 opens that wait for named pipes"),
];

const ALONE: &str = "alone";

/// The most time that the other user may add, in milliseconds.
pub(super) const MOST_ADDED: f64 = 100.0;

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    if !lab.is_root() {
        report.leave_out(TITLE, Lab::NEEDS_ROOT);
        return Ok(());
    }
    if !has("python3") {
        report.leave_out(TITLE, "python3 is not installed");
        return Ok(());
    }
    let others = TAKEN.map(|(taken, name)| (name, Some(taken)));
    let contest = Contest::default().variants([(ALONE, None)], |taken| cat(lab, taken));
    // With today's program only: an older one might never answer.
    let samples = contest
        .variants(others, |taken| cat(lab, taken))
        .run(lab.rounds)?;
    report.times(TITLE, &samples, Compare::Time)?;
    for (_, name) in TAKEN {
        require(report, &samples, name)?;
    }
    Ok(())
}

fn require(report: &mut Report, samples: &Samples, name: &str) -> Result<()> {
    let added = samples.difference(name, ALONE)?.times(1000.0);
    let text = format!("cat beside another user's {name}: added to it alone");
    report.require(&text, Bar::AtMost(MOST_ADDED), " ms", added);
    Ok(())
}

/// Mirrors a folder, has the other user take `taken` there, and reads a file; returns the time of that in
/// seconds.
fn cat(lab: &Lab, taken: Option<&str>) -> Result<f64> {
    let source = lab.new_folder()?;
    fs::set_permissions(source.path(), PermissionsExt::from_mode(0o777))?;
    fs::write(source.path().join("file"), [b'v'; 4096])?;
    let mount = mounts::bridge(lab, source.path(), &["--allow-other"])?;
    let hog = taken.map(|taken| Hog::start(lab, taken, source.path(), mount.path()));
    let hog = hog.transpose()?;
    let taken = seconds(Command::new("cat").arg(mount.path().join("file")));
    hog.map_or(Ok(()), Hog::end)?;
    taken
}
