//! The command as one static file, for every Linux of its kind of machine.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use verimount_support::{
    command,
    workspace::{cargo, root, target},
};

/// The compiler's name of a Linux whose C library is part of each program.
pub(crate) fn platform() -> String {
    format!("{}-unknown-linux-musl", env::consts::ARCH)
}

/// Compiles it.
pub(crate) fn build() -> Result<PathBuf> {
    let platform = platform();
    command::run(Command::new("rustup").args(["target", "add", &platform]))
        .context("the static binary needs Rust's library for musl")?;
    let mut build = cargo("build");
    build
        .args([
            "--release",
            "--locked",
            "--package",
            "verimount-cli",
            "--target",
        ])
        .arg(&platform);
    command::run(reproducibly(&mut build)?)?;
    Ok(target()?.join(platform).join("release/verimount"))
}

/// Has a release compiled without names of folders of this machine, and without what is for debugging.
pub(crate) fn reproducibly(build: &mut Command) -> Result<&mut Command> {
    let folders = [
        (root().to_owned(), "/verimount"),
        (target()?, "/target"),
        (cargo_home()?, "/cargo"),
    ];
    let renamed = |option: &str| {
        let option = |(from, to): &(PathBuf, &str)| format!("{option}={}={to}", from.display());
        folders.iter().map(option).collect::<Vec<_>>()
    };
    Ok(build
        .env("CARGO_PROFILE_RELEASE_DEBUG", "none")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        // Separated by this character, in which names of folders may have spaces.
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            renamed("--remap-path-prefix").join("\x1f"),
        )
        .env("CFLAGS", renamed("-ffile-prefix-map").join(" ")))
}

/// Where cargo keeps the sources of dependencies.
pub(super) fn cargo_home() -> Result<PathBuf> {
    let default = || Some(Path::new(&env::var_os("HOME")?).join(".cargo"));
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(default);
    home.context("neither CARGO_HOME nor HOME is set")
}
