//! Creating and removing many files.

use std::{fs, process::Command};

use anyhow::{Result, ensure};
use verimount_support::command;

use super::{subjects::Subject, workload::Workload};
use crate::{
    lab::{Lab, ensure_same_tree, listing, seconds},
    report::Report,
    tree::Tree,
};

pub(super) fn run(lab: &Lab, report: &mut Report, subjects: &[Subject], tree: &Tree) -> Result<()> {
    let untar = Workload {
        name: "untar",
        title: format!("Untar of {}", tree.size),
        most: Some(2.0),
    };
    untar.run(lab, report, subjects, |subject| unpack(lab, subject, tree))?;
    let remove = Workload {
        name: "rm -r",
        title: format!("`rm -r` of {}", tree.size),
        most: None,
    };
    remove.run(lab, report, subjects, |subject| {
        remove_all(lab, subject, tree)
    })
}

fn unpack(lab: &Lab, subject: &Subject, tree: &Tree) -> Result<f64> {
    let source = lab.new_folder()?;
    let mirror = subject.open(lab, source.path())?;
    tree.make_ready(lab)?;
    let seconds = seconds(&mut tree.unpack(mirror.path()))?;
    ensure_same_tree(&tree.source, mirror.path())?;
    Ok(seconds)
}

/// Warm: the tree has just been created, and listed through the mount.
fn remove_all(lab: &Lab, subject: &Subject, tree: &Tree) -> Result<f64> {
    let source = lab.new_folder()?;
    command::run(&mut tree.unpack(source.path()))?;
    let mirror = subject.open(lab, source.path())?;
    rustix::fs::sync();
    listing(mirror.path())?;
    let top = mirror.path().join(Tree::NAME);
    let seconds = seconds(Command::new("rm").arg("-r").arg(top))?;
    let left = fs::read_dir(mirror.path())?.count();
    ensure!(left == 0, "{} left files behind", subject.name);
    Ok(seconds)
}
