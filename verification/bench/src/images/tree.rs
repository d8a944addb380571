use std::{path::Path, process::Command};

use anyhow::{Result, ensure};

use super::subjects::{OURS, Subject, subjects};
use crate::{
    data,
    lab::{Lab, ensure_same_tree, listing, seconds, seconds_piped},
    mounts::Mount,
    report::{Bar, Compare, Report},
    rounds::{Contest, Samples},
};

/// Reading and listing a whole uncached tree.
pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    if !lab.is_root() {
        report.leave_out("Cold `tar` and `find` of a tree", Lab::NEEDS_ROOT);
        return Ok(());
    }
    let tree = lab.path("tree");
    let bytes = data::write_tree(&tree, &lab.sizes)?;
    let what = format!("{} files, {} MB", lab.sizes.files(), bytes / 1_000_000);
    let subjects = subjects(lab, report, &tree)?;

    let tar = measure(lab, &subjects, |subject| {
        read_all(lab, subject, &tree, bytes)
    })?;
    report.times(&format!("Cold `tar` of {what}"), &tar, Compare::Time)?;
    require(report, "cold tar", &tar, "native", 1.3)?;
    require(report, "cold tar", &tar, "squashfuse", 1.0)?;

    let find = measure(lab, &subjects, |subject| list_all(lab, subject, &tree))?;
    report.times(
        &format!("Cold `find -printf %s` over {what}"),
        &find,
        Compare::Time,
    )?;
    require(report, "cold find", &find, "kernel erofs", 1.0)
}

fn measure(
    lab: &Lab,
    subjects: &[Subject],
    measure: impl Fn(&Subject) -> Result<f64> + Copy,
) -> Result<Samples> {
    let subjects = subjects.iter().map(|subject| (&subject.name[..], subject));
    Contest::default().variants(subjects, measure).run_in(lab)
}

/// Compares our time with that of every variant whose name has this prefix.
fn require(
    report: &mut Report,
    text: &str,
    samples: &Samples,
    peer: &str,
    most: f64,
) -> Result<()> {
    for name in samples.names().filter(|name| name.starts_with(peer)) {
        let text = format!("{text}: time / {name}");
        report.require(&text, Bar::AtMost(most), "x", samples.ratio(OURS, name)?);
    }
    Ok(())
}

fn read_all(lab: &Lab, subject: &Subject, tree: &Path, bytes: u64) -> Result<f64> {
    let mount = subject.mount(lab)?;
    let folder = mount.as_ref().map_or(tree, Mount::path);
    lab.make_cold(bytes)?;
    let mut tar = Command::new("tar");
    tar.args(["cf", "-", "."]).current_dir(folder);
    // Not directly to /dev/null: tar would detect that, and read nothing.
    let seconds = seconds_piped(&mut tar, &mut Command::new("cat"))?;
    ensure_same_tree(tree, folder)?;
    Ok(seconds)
}

fn list_all(lab: &Lab, subject: &Subject, tree: &Path) -> Result<f64> {
    let mount = subject.mount(lab)?;
    let folder = mount.as_ref().map_or(tree, Mount::path);
    lab.make_cold(0)?;
    let seconds = seconds(Command::new("find").arg(folder).args(["-printf", "%s\\n"]))?;
    ensure!(
        listing(folder)? == listing(tree)?,
        "{} lists other files",
        subject.name
    );
    Ok(seconds)
}
