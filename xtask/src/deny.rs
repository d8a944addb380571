//! The dependencies' licences, sources, bans and advisories, checked with `cargo deny`.

use std::{path::Path, process::Command};

use anyhow::Result;
use verimount_support::{cargo_tool::CargoTool, command, workspace::root};

const CARGO_DENY: CargoTool = CargoTool {
    program: "cargo-deny",
    versions: "^0.20",
};

/// Checks everything in `deny.toml`, but the advisories only if their database, a git repository, can be
/// fetched: build machines often have access only to the package registry.
pub(crate) fn check(target: &Path) -> Result<()> {
    let program = CARGO_DENY.installed(target)?;
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
