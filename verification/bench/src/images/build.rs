//! Building and sealing an image of a tree.

use std::{fs, path::Path, process::Command};

use anyhow::Result;

use crate::{
    lab::{Format, Lab, has, seconds},
    report::{Bar, Compare, Report},
    rounds::Contest,
};

const THEIRS: &str = "mkfs.erofs, fsverity digest";

/// Compares building from files in the page cache with `mkfs.erofs`, whose image is then hashed.
pub(super) fn run(lab: &Lab, report: &mut Report, tree: &Path, what: &str) -> Result<()> {
    let image = &*lab.path("built.img");
    let mut contest = Contest::default();
    for format in lab.formats()? {
        contest = contest.variant(format.ours(), move || {
            measure(image, || seconds(&mut lab.build(format, tree, image)))
        });
    }
    if has("mkfs.erofs") && has("fsverity") {
        contest = contest.variant(THEIRS, || measure(image, || make_and_hash(tree, image)));
    } else {
        report.leave_out(THEIRS, "not installed");
    }
    let samples = contest.run_in(lab)?;
    let title = format!("Building and sealing an image of {what}, warm");
    report.times(&title, &samples, Compare::Time)?;
    let ours = Format::Erofs.ours();
    if let Ok(times) = samples.ratio(ours, THEIRS) {
        let text = format!("build, {ours}: time / {THEIRS}");
        report.require(&text, Bar::AtMost(1.0), "x", times);
    }
    Ok(())
}

/// The time in seconds of `build`, which makes a new `image`.
fn measure(image: &Path, build: impl FnOnce() -> Result<f64>) -> Result<f64> {
    // What earlier runs have written must not be waited for in this one.
    rustix::fs::sync();
    let seconds = build()?;
    fs::remove_file(image)?;
    Ok(seconds)
}

fn make_and_hash(tree: &Path, image: &Path) -> Result<f64> {
    let mut mkfs = Command::new("mkfs.erofs");
    let made = seconds(mkfs.arg("--quiet").arg(image).arg(tree))?;
    let mut digest = Command::new("fsverity");
    Ok(made + seconds(digest.arg("digest").arg(image))?)
}
