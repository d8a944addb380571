//! git: creates, clones, packs and checks a repository.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, ensure};
use verimount_support::workspace::root;

use crate::output;

/// The files that are committed: the source code of this workspace.
const FILES: &str = "crates";

/// The number of commits after the first, each of which changes files.
const COMMITS: usize = 10;

/// Works in `directory`; returns a line of results.
pub(crate) fn run(directory: &Path) -> Result<String> {
    let original = root().join(FILES);
    let repository = directory.join("repository");
    fs::create_dir(&repository)?;
    let git = |arguments: &[&str]| output(&mut git(&repository, arguments));
    git(&["init", "--quiet"])?;
    let files = repository.join(FILES);
    output(Command::new("cp").arg("-r").arg(&original).arg(&files))?;
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--message=All"])?;
    for number in 0..COMMITS {
        fs::rename(&files, repository.join("moved"))?;
        fs::write(repository.join("number"), number.to_string())?;
        git(&["add", "--all"])?;
        git(&["commit", "--quiet", "--message=Moved"])?;
        fs::rename(repository.join("moved"), &files)?;
        git(&["add", "--all"])?;
        git(&["commit", "--quiet", "--message=Moved back"])?;
    }
    // One clone shares the objects' files by hard links; the other has its own.
    git(&["clone", "--quiet", ".", "../linked"])?;
    git(&["clone", "--quiet", "--no-local", ".", "../copied"])?;
    git(&["gc", "--quiet", "--aggressive", "--prune=now"])?;
    for clone in ["repository", "linked", "copied"] {
        let clone = directory.join(clone);
        output(&mut self::git(&clone, &["fsck", "--full", "--strict"]))?;
        let changes = output(&mut self::git(&clone, &["status", "--porcelain"]))?;
        ensure!(changes.is_empty(), "git shows changes:\n{changes}");
        let mut diff = Command::new("diff");
        output(diff.arg("-r").arg(&original).arg(clone.join(FILES)))?;
    }
    let commits = git(&["rev-list", "--count", "HEAD"])?;
    Ok(format!(
        "git: {} commits, cloned twice, gc, fsck",
        commits.trim()
    ))
}

/// git in a folder, independent of the user's settings.
fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(folder)
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    git
}
