//! A file system on a loop device on a disk.

use std::process::Command;

use anyhow::{Context, Result};
use verimount_support::command;

use super::subjects::{BITMAP, PLAIN, Subject};
use crate::{
    lab::{Lab, ensure_same_tree, seconds},
    mounts,
    report::{Bar, Compare, Report},
    rounds::Contest,
    tree::Tree,
};

/// The size of the disk in bytes: enough for the largest tree. Storage is allocated only for used parts.
const DISK: u64 = 2 << 30;

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let title = "Untar into ext4 on a looped disk";
    if !lab.is_root() {
        report.leave_out(title, Lab::NEEDS_ROOT);
        return Ok(());
    }
    let tree = Tree::make(lab)?;
    let named = Subject::FILES.iter().map(|subject| (subject.name, subject));
    let samples = Contest::default()
        .variants(named, |subject| {
            let storage = subject.storage(lab, DISK)?;
            let disk = storage.disk(lab)?;
            let path = disk.path().context("a file")?;
            command::run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(path))?;
            let mounted = mounts::looped(lab, "ext4", "loop", path)?;
            tree.make_ready(lab)?;
            let untar = seconds(&mut tree.unpack(mounted.path()))?;
            let sync = seconds(Command::new("sync").arg("-f").arg(mounted.path()))?;
            let unpacked = mounted.path().join(Tree::NAME);
            ensure_same_tree(&tree.source.join(Tree::NAME), &unpacked)?;
            Ok(untar + sync)
        })
        .run_in(lab)?;
    report.times(&format!("{title}: {}", tree.size), &samples, Compare::Time)?;
    let text = format!("{title}, {BITMAP}: time / {PLAIN}");
    report.require(&text, Bar::AtMost(1.5), "x", samples.ratio(BITMAP, PLAIN)?);
    Ok(())
}
