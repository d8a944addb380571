use std::{path::Path, process::Command};

use anyhow::{Result, ensure};

use super::{
    build,
    compression::Compression,
    subjects::{EROFSFUSE, KERNEL, KERNEL_OURS, OURS, Subject, subjects},
};
use crate::{
    data,
    lab::{Format, Lab, ensure_same_tree, listing, seconds, seconds_piped},
    mounts::Mount,
    report::{Bar, Compare, Report},
    rounds::{Contest, Samples},
};

/// What some of the texts in the tree contain.
const RARE_TEXT: &str = "salt salt salt salt salt";

/// Reading and listing a whole uncached tree.
pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    if !lab.is_root() {
        report.leave_out("Cold `tar` and `find` of a tree", Lab::NEEDS_ROOT);
        return Ok(());
    }
    let tree = lab.path("tree");
    let bytes = data::write_tree(&tree, &lab.sizes)?;
    let what = format!("{} files, {} MB", lab.sizes.files(), bytes / 1_000_000);
    build::run(lab, report, &tree, &what)?;
    let subjects = subjects(lab, report, &tree)?;

    let tar = measure(lab, &subjects, |subject| {
        read_all(lab, subject, &tree, bytes)
    })?;
    report.times(&format!("Cold `tar` of {what}"), &tar, Compare::Time)?;
    let find = measure(lab, &subjects, |subject| list_all(lab, subject, &tree))?;
    report.times(
        &format!("Cold `find -printf %s` over {what}"),
        &find,
        Compare::Time,
    )?;
    let grep = measure(lab, &subjects, |subject| search_all(lab, subject, &tree))?;
    report.times(&format!("Warm `grep -r` over {what}"), &grep, Compare::Time)?;

    let native = &*subjects[0].name;
    for format in lab.formats()? {
        let mut require =
            |text, samples, peer, most| require(report, text, samples, format.ours(), peer, most);
        require("cold tar", &tar, native, 1.3)?;
        require("cold find", &find, KERNEL, 1.0)?;
        for peer in ["squashfuse gzip", "squashfuse stored", EROFSFUSE] {
            require("cold tar", &tar, peer, 1.0)?;
            require("cold find", &find, peer, 1.0)?;
            require("warm grep", &grep, peer, 1.0)?;
        }
        if format == Format::Erofs {
            require("cold tar", &tar, KERNEL_OURS, 1.05)?;
            require("cold find", &find, KERNEL_OURS, 1.0)?;
            require("warm grep", &grep, KERNEL_OURS, 1.2)?;
        }
    }
    for compression in Compression::all(lab) {
        let [ours, same] = [OURS, EROFSFUSE].map(|subject| compression.variant(subject));
        for peer in [&*same, "squashfuse gzip"] {
            require(report, "cold tar", &tar, &ours, peer, 1.0)?;
            require(report, "cold find", &find, &ours, peer, 1.0)?;
            require(report, "warm grep", &grep, &ours, peer, 1.0)?;
        }
    }
    Ok(())
}

fn measure(
    lab: &Lab,
    subjects: &[Subject],
    measure: impl Fn(&Subject) -> Result<f64> + Copy,
) -> Result<Samples> {
    let subjects = subjects.iter().map(|subject| (&subject.name[..], subject));
    Contest::default().variants(subjects, measure).run_in(lab)
}

/// Compares the time of `ours` with that of `peer`, if it could be measured.
fn require(
    report: &mut Report,
    text: &str,
    samples: &Samples,
    ours: &str,
    peer: &str,
    most: f64,
) -> Result<()> {
    if samples.names().any(|name| name == peer) {
        let text = format!("{text}, {ours}: time / {peer}");
        report.require(&text, Bar::AtMost(most), "x", samples.ratio(ours, peer)?);
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

/// Searches all files, after they have been searched once.
fn search_all(lab: &Lab, subject: &Subject, tree: &Path) -> Result<f64> {
    let mount = subject.mount(lab)?;
    let folder = mount.as_ref().map_or(tree, Mount::path);
    ensure_same_tree(tree, folder)?;
    let grep = || {
        let mut grep = Command::new("grep");
        grep.args(["-r", "-c", RARE_TEXT]).current_dir(folder);
        // Not directly to /dev/null: grep would stop at the first match.
        seconds_piped(&mut grep, &mut Command::new("cat"))
    };
    grep()?;
    grep()
}
