//! The source of a commit with that of all dependencies, from which it is built without a network.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
};

use anyhow::Result;
use verimount_support::{command, workspace::cargo};

use super::{Commit, VERSION, git};

/// Makes the archive in the folder `output`, by way of the folder `work`.
pub(super) fn archive(commit: &Commit, work: &Path, output: &Path) -> Result<()> {
    let name = format!("verimount-{VERSION}");
    let folder = work.join(&name);
    fs::create_dir(&folder)?;
    let own = work.join("own.tar");
    command::run(
        git(&["archive", "--format=tar", "--output"])
            .arg(&own)
            .arg("HEAD"),
    )?;
    let mut unpack = Command::new("tar");
    unpack.arg("--extract").arg("--file").arg(own);
    command::run(unpack.arg("--directory").arg(&folder))?;
    let vendored = folder.join("vendor");
    let mut vendor = cargo("vendor");
    vendor.args(["--quiet", "--locked", "--versioned-dirs"]);
    // It prints what cargo's settings need, with the path of this folder.
    let settings = command::stdout(vendor.arg(&vendored))?;
    let settings = settings.replace(&vendored.display().to_string(), "vendor");
    let mut config = File::options()
        .append(true)
        .open(folder.join(".cargo/config.toml"))?;
    writeln!(config, "\n{settings}")?;
    let archive = output.join(format!("{name}-source.tar.xz"));
    commit.pack(work, &name, &archive, "xz --threads=1")
}
