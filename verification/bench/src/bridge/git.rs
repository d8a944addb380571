//! `git status` of a large repository.

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};
use verimount_support::command;

use super::{subjects::Subject, workload::Workload};
use crate::{
    lab::{Lab, has, seconds},
    report::Report,
    tree::Tree,
};

/// First makes the tree a repository.
pub(super) fn run(lab: &Lab, report: &mut Report, subjects: &[Subject], tree: &Tree) -> Result<()> {
    let status = Workload {
        name: "git status",
        title: format!("Warm `git status` of {}", tree.size),
        most: None,
    };
    if !has("git") {
        report.leave_out(&status.title, "git is not installed");
        return Ok(());
    }
    commit_all(&tree.source)?;
    status.run(lab, report, subjects, |subject| {
        let mirror = subject.open(lab, &tree.source)?;
        let git_status = || git(mirror.path(), &["status", "--porcelain"]);
        // The first one also records the files' inode numbers and times in this mount.
        let changes = command::stdout(&mut git_status())?;
        ensure!(changes.is_empty(), "{} shows changes", subject.name);
        seconds(&mut git_status())
    })
}

fn commit_all(source: &Path) -> Result<()> {
    command::run(&mut git(source, &["init", "--quiet"]))?;
    command::run(&mut git(source, &["add", "--all"]))?;
    command::run(&mut git(source, &["commit", "--quiet", "--message=All"]))
}

/// git in the tree below `folder`, independent of the user's settings.
fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(folder.join(Tree::NAME))
        .args(["-c", "user.name=Bench", "-c", "user.email=bench@localhost"])
        .args(["-c", "gc.auto=0", "-c", "core.compression=0"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    git
}
