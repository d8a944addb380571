//! How long a user of a shared bridge waits beside loads of another one, which a source has to bear as well.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use anyhow::{Context, Result};
use verimount_support::command;

use super::{fairness::MOST_ADDED, hog::Hog};
use crate::{
    lab::{Lab, has},
    mounts,
    report::{Bar, Compare, Report},
    rounds::Contest,
};

const TITLE: &str =
    "Reading a file, listing, creating and removing, p99 of a user beside loads of another user";

/// The user who must not be affected, a program for Python.
const NEIGHBOUR: &str = include_str!("neighbour.py");

/// A load of the other user, and its names in the table: on the source, and through a bridge.
const LOADS: [(&str, [&str; 2]); 3] = [
    ("copies", ["300 copies, source", "300 copies, verimount"]),
    ("syncs", ["300 fsyncs, source", "300 fsyncs, verimount"]),
    (
        "allocations",
        ["64 allocations, source", "64 allocations, verimount"],
    ),
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
    let each = LOADS
        .into_iter()
        .flat_map(|(load, [source, bridge])| [(source, (load, false)), (bridge, (load, true))]);
    let contest = Contest::default().variants(each, |(load, bridged)| wait(lab, load, bridged));
    // With today's program only: with an older one, a single round may take minutes.
    let samples = contest.run(lab.rounds)?;
    report.times(TITLE, &samples, Compare::Time)?;
    for (_, [source, bridge]) in LOADS {
        let added = samples.difference(bridge, source)?.times(1000.0);
        let text = format!("p99 beside {bridge}: more than on the source");
        report.require(&text, Bar::AtMost(MOST_ADDED), " ms", added);
    }
    Ok(())
}

/// Has the other user put `load` on a folder or its mirror, and works beside it; returns the time in seconds
/// that 99 of 100 rounds of that do not exceed.
fn wait(lab: &Lab, load: &str, bridged: bool) -> Result<f64> {
    let source = lab.new_folder()?;
    let own = |name: &str| -> Result<()> {
        let folder = source.path().join(name);
        fs::create_dir(&folder)?;
        Ok(fs::set_permissions(
            folder,
            PermissionsExt::from_mode(0o777),
        )?)
    };
    // Whoever creates names locks the directory.
    own("hog")?;
    own("neighbour")?;
    let mount = bridged.then(|| mounts::bridge(lab, source.path(), &["--allow-other"]));
    let mount = mount.transpose()?;
    let place = mount.as_ref().map_or(source.path(), mounts::Mount::path);
    let hog = Hog::start(lab, load, source.path(), &place.join("hog"))?;
    let waited = neighbour(&place.join("neighbour"));
    hog.end()?;
    waited
}

fn neighbour(folder: &Path) -> Result<f64> {
    let mut python = Command::new("python3");
    let said = command::stdout(python.args(["-c", NEIGHBOUR]).arg(folder))?;
    said.trim().parse().context("a number of seconds")
}
