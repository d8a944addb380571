//! Reading and listing many files.

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};

use super::{subjects::Subject, workload::Workload};
use crate::{
    lab::{Lab, listing, seconds, seconds_piped, sorted_lines},
    report::Report,
    tree::Tree,
};

pub(super) fn run(lab: &Lab, report: &mut Report, subjects: &[Subject], tree: &Tree) -> Result<()> {
    let matches = sorted_lines(&mut grep(&tree.source))?;
    let files = listing(&tree.source)?;

    let warm_grep = Workload {
        name: "warm grep",
        title: format!("Warm `grep -rc .` of {}", tree.size),
        most: Some(4.0),
    };
    warm_grep.run(lab, report, subjects, |subject| {
        let mirror = subject.open(lab, &tree.source)?;
        let found = sorted_lines(&mut grep(mirror.path()))?;
        ensure!(found == matches, "{} finds other lines", subject.name);
        // Not directly to /dev/null: grep would detect that, and stop at the first match.
        seconds_piped(&mut grep(mirror.path()), &mut Command::new("cat"))
    })?;

    let warm_find = Workload {
        name: "warm find",
        title: format!("Warm `find -printf %s` over {}", tree.size),
        most: Some(1.5),
    };
    warm_find.run(lab, report, subjects, |subject| {
        let mirror = subject.open(lab, &tree.source)?;
        let found = listing(mirror.path())?;
        ensure!(found == files, "{} lists other files", subject.name);
        seconds(&mut find(mirror.path()))
    })?;

    let cold_find = Workload {
        name: "cold find",
        title: format!("Cold `find -printf %s` over {}", tree.size),
        most: None,
    };
    if !lab.is_root() {
        report.leave_out(&cold_find.title, Lab::NEEDS_ROOT);
        return Ok(());
    }
    cold_find.run(lab, report, subjects, |subject| {
        let mirror = subject.open(lab, &tree.source)?;
        lab.make_cold(0)?;
        let seconds = seconds(&mut find(mirror.path()))?;
        let found = listing(mirror.path())?;
        ensure!(found == files, "{} lists other files", subject.name);
        Ok(seconds)
    })
}

/// Counts the lines of each file. In the C locale, all bytes are text.
fn grep(folder: &Path) -> Command {
    let mut grep = Command::new("grep");
    grep.args(["-rc", "."])
        .current_dir(folder)
        .env("LC_ALL", "C");
    grep
}

fn find(folder: &Path) -> Command {
    let mut find = Command::new("find");
    find.arg(folder).args(["-printf", "%s\\n"]);
    find
}
