//! The Debian package.

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use verimount_support::{command, workspace::root};

use super::{Commit, VERSION};

/// What dpkg runs before and after it installs or removes the files.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Packs the files of an installation, to which what dpkg needs is added.
pub(super) fn package(commit: &Commit, tree: &Path, output: &Path) -> Result<()> {
    let architecture = match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("no Debian package for {other}"),
    };
    let size = command::stdout(
        Command::new("du")
            .args(["--summarize", "--apparent-size", "-k"])
            .arg(tree),
    )?;
    let size = size
        .split_whitespace()
        .next()
        .context("du prints no size")?;
    let given = root().join("packaging/debian");
    let control = fs::read_to_string(given.join("control"))?
        .replace("@VERSION@", VERSION)
        .replace("@ARCHITECTURE@", architecture)
        .replace("@SIZE@", size);
    let folder = tree.join("DEBIAN");
    fs::create_dir(&folder)?;
    fs::write(folder.join("control"), control)?;
    for script in SCRIPTS {
        // With its permissions.
        fs::copy(given.join(script), folder.join(script))?;
    }
    let package = output.join(format!("verimount_{VERSION}_{architecture}.deb"));
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--build", "--root-owner-group", "-Zxz"])
        .env("SOURCE_DATE_EPOCH", &commit.time)
        .env("DPKG_DEB_THREADS_MAX", "1");
    command::run(build.arg(tree).arg(package))
}
