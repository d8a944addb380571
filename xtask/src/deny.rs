//! The dependencies' licences, sources, bans and advisories, checked with `cargo deny`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use verimount_testkit::tools;

use crate::{
    command,
    workspace::{cargo, root},
};

/// Checks everything that `deny.toml` asks for, but the advisories only where their database, a
/// git repository, can be fetched: builds are often cut off from all but the package registry.
pub(crate) fn check(target: &Path) -> Result<()> {
    let program = installed(target)?;
    let deny = || {
        let mut deny = Command::new(&program);
        deny.current_dir(root());
        deny
    };
    command::run(deny().args(["check", "bans", "licenses", "sources"]))?;
    let fetch = deny().args(["fetch", "db"]).output()?;
    if fetch.status.success() {
        command::run(deny().args(["check", "--disable-fetch", "advisories"]))
    } else {
        println!("NOT CHECKED: security advisories, because their database cannot be fetched here");
        Ok(())
    }
}

/// Where `cargo-deny` is: the user's own, or one installed below Cargo's target folder. Debian has
/// no package of it, so the first time it is compiled, which takes some minutes.
fn installed(target: &Path) -> Result<PathBuf> {
    if let Some(program) = tools::locate("cargo-deny") {
        return Ok(program);
    }
    let tools = target.join("tools");
    let program = tools.join("bin/cargo-deny");
    if !program.is_file() {
        println!(
            "Installing cargo-deny in {}, once; this takes some minutes",
            tools.display()
        );
        let mut install = cargo("install");
        install
            .args(["--locked", "cargo-deny@^0.20", "--root"])
            .arg(&tools);
        command::run(&mut install)?;
    }
    Ok(program)
}
