//! Building and sealing an image of a tree.

use std::{fs, path::Path, process::Command};

use anyhow::Result;
use verimount_support::command;

use super::compression::Compression;
use crate::{
    lab::{Format, Lab, has, seconds},
    report::{Bar, Compare, Report},
    rounds::Contest,
    table::Table,
};

const OURS: &str = "verimount";
const THEIRS: &str = "mkfs.erofs, fsverity digest";

/// At most how much longer building may take than the peer.
const TIME: f64 = 1.0;
/// At most how much longer building may take than the peer if it compresses.
const TIME_COMPRESSED: f64 = 1.1;
/// At most how much larger a compressed image may be.
const SIZE: f64 = 1.02;

/// Compares building from files in the page cache with `mkfs.erofs`, whose image is then hashed.
pub(super) fn run(lab: &Lab, report: &mut Report, tree: &Path, what: &str) -> Result<()> {
    if !lab.formats()?.contains(&Format::Erofs) {
        report.leave_out("building", Lab::OLDER_LACKS_EROFS);
        return Ok(());
    }
    let mkfs = lab.erofs_utils("mkfs.erofs").filter(|_| has("fsverity"));
    let Some(mkfs) = &mkfs else {
        report.leave_out(THEIRS, "not installed");
        return Ok(());
    };
    times(lab, report, mkfs, tree, what)?;
    sizes(lab, report, mkfs, tree, what)
}

fn times(lab: &Lab, report: &mut Report, mkfs: &Path, tree: &Path, what: &str) -> Result<()> {
    let image = &*lab.path("built.img");
    let all = || {
        [Compression::STORED]
            .into_iter()
            .chain(Compression::all(lab))
    };
    let mut contest = Contest::default().variant(Format::Romfs.ours(), || {
        measure(image, || {
            seconds(&mut lab.build(Format::Romfs, tree, image))
        })
    });
    for kind in all() {
        contest = contest
            .variant(kind.variant(OURS), move || {
                measure(image, || seconds(&mut kind.build(lab, tree, image)))
            })
            .variant(kind.variant(THEIRS), move || {
                let mut mkfs = kind.mkfs(mkfs, tree, image);
                let mut digest = Command::new("fsverity");
                digest.arg("digest").arg(image);
                measure(image, || Ok(seconds(&mut mkfs)? + seconds(&mut digest)?))
            });
    }
    let samples = contest.run_in(lab)?;
    let title = format!("Building and sealing an image of {what}, warm");
    report.times(&title, &samples, Compare::Time)?;
    for kind in all() {
        let [ours, theirs] = [OURS, THEIRS].map(|subject| kind.variant(subject));
        let most = if kind.name == Compression::STORED.name {
            TIME
        } else {
            TIME_COMPRESSED
        };
        let text = format!("build, {ours}: time / {THEIRS}");
        let times = samples.ratio(&ours, &theirs)?;
        report.require(&text, Bar::AtMost(most), "x", times);
    }
    Ok(())
}

/// Compares the sizes of compressed images, which are the same in every round.
fn sizes(lab: &Lab, report: &mut Report, mkfs: &Path, tree: &Path, what: &str) -> Result<()> {
    const THEIRS: &str = "mkfs.erofs";
    let image = &*lab.path("built.img");
    let mut contest = Contest::default();
    for kind in Compression::all(lab) {
        contest = contest
            .variant(kind.variant(OURS), move || {
                let mut build = kind.build(lab, tree, image);
                size(build.arg("--no-seal"), image)
            })
            .variant(kind.variant(THEIRS), move || {
                size(&mut kind.mkfs(mkfs, tree, image), image)
            });
    }
    let samples = contest.run(1)?;
    let mut table = Table::new(["image", "MB"]);
    for name in samples.names() {
        table.row([name, &format!("{:.2}", samples.spread(name)?.median)]);
    }
    let title = format!("Sizes of images of {what}, without a seal");
    report.table(&title, table, "MB", &samples)?;
    for kind in Compression::all(lab) {
        let [ours, theirs] = [OURS, THEIRS].map(|subject| kind.variant(subject));
        let text = format!("size, {ours}: / {THEIRS}");
        let sizes = samples.ratio(&ours, &theirs)?;
        report.require(&text, Bar::AtMost(SIZE), "x", sizes);
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

/// The size in MB of the `image` that `build` makes.
fn size(build: &mut Command, image: &Path) -> Result<f64> {
    command::run(build)?;
    let size = fs::metadata(image)?.len();
    fs::remove_file(image)?;
    Ok(size as f64 / 1e6)
}
