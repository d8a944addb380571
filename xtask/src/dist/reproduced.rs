//! Whether another build gives the same.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use verimount_support::{command, workspace::root};

use super::files;

/// Makes everything in a clone elsewhere, and compares it with the files in `output`.
pub(super) fn check(output: &Path) -> Result<()> {
    let folder = TempDir::new()?;
    let clone = folder.path().join("elsewhere");
    let mut git = Command::new("git");
    command::run(git.args(["clone", "--quiet"]).arg(root()).arg(&clone))?;
    let again = folder.path().join("again");
    let mut dist = Command::new("cargo");
    dist.args(["xtask", "dist", "--output"])
        .arg(&again)
        .current_dir(&clone)
        .env("CARGO_TARGET_DIR", folder.path().join("target"));
    command::run(&mut dist)?;
    let names = |folder: &Path| -> Result<Vec<_>> {
        let files = files(folder)?;
        Ok(files
            .iter()
            .filter_map(|file| file.file_name().map(ToOwned::to_owned))
            .collect())
    };
    let expected = names(output)?;
    ensure!(
        names(&again)? == expected,
        "other files were made: {:?}",
        names(&again)?
    );
    for name in expected {
        let read = |folder: &Path| fs::read(folder.join(&name)).context("reading what was made");
        ensure!(read(output)? == read(&again)?, "{} differs", name.display());
    }
    println!("Two builds are equal.");
    Ok(())
}
