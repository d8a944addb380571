//! What one change of a file's attributes or name costs: the bridge makes it with the rights of its caller.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use anyhow::{Context, Result};
use verimount_support::command;

use crate::{
    lab::{Lab, has},
    mounts,
    report::{Compare, Report},
    rounds::Contest,
};

const TITLE: &str = "One change by an ordinary user, median of 1000";

/// The user, a program for Python.
const CHANGER: &str = include_str!("changer.py");

/// The changes; the first is a round trip that changes nothing.
const CHANGES: [&str; 7] = [
    "statvfs", "chmod", "create", "unlink", "rename", "mkdir", "rmdir",
];

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    if !lab.is_root() {
        report.leave_out(TITLE, Lab::NEEDS_ROOT);
        return Ok(());
    }
    if !has("python3") {
        report.leave_out(TITLE, "python3 is not installed");
        return Ok(());
    }
    let changes = CHANGES.map(|change| (change, change));
    let contest = Contest::default().variants(changes, |change| change_once(lab, change));
    let samples = contest.run_in(lab)?;
    report.times(TITLE, &samples, Compare::Time)
}

/// Mirrors a folder, and makes one kind of change there; returns the time of one in seconds.
fn change_once(lab: &Lab, change: &str) -> Result<f64> {
    let source = lab.new_folder()?;
    fs::set_permissions(source.path(), PermissionsExt::from_mode(0o777))?;
    let mount = mounts::bridge(lab, source.path(), &["--allow-other"])?;
    let mut python = Command::new("python3");
    let said = command::stdout(python.args(["-c", CHANGER]).arg(mount.path()).arg(change))?;
    said.trim().parse().context("a number of seconds")
}
