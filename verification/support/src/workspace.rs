//! Paths in this repository.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::command;

/// The repository's top folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this package is two folders below it")
}

/// `cargo SUBCOMMAND`, run at the top of the repository by the toolchain that built this.
pub fn cargo(subcommand: &str) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg(subcommand).current_dir(root());
    // What Cargo tells this program about its package. Build scripts that ask for the same of theirs would run again.
    let of_package = env::vars_os().map(|(name, _)| name).filter(|name| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
    });
    for name in of_package {
        cargo.env_remove(name);
    }
    cargo
}

/// Cargo's target folder, according to the user's settings.
///
/// # Errors
/// Cargo fails.
pub fn target() -> Result<PathBuf> {
    let json = command::stdout(cargo("metadata").args(["--no-deps", "--format-version=1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&json)?;
    let target = metadata["target_directory"].as_str();
    Ok(target
        .context("cargo metadata has no target_directory")?
        .into())
}

/// Cargo's profile for what is measured and published.
pub const RELEASE: &str = "release";

/// Cargo's profile for tests, with checked arithmetic.
pub const DEV: &str = "dev";

/// The folder of what is compiled in [`DEV`]; others have the profile's name.
const DEV_FOLDER: &str = "debug";

/// Compiles a program of this workspace in one of Cargo's profiles; returns its path.
///
/// All programs are compiled with the features that the whole workspace asks for, so that no library is compiled twice.
///
/// # Errors
/// It does not compile.
pub fn build(program: &str, profile: &str) -> Result<PathBuf> {
    let mut build = cargo("build");
    build.args(["--locked", "--workspace", "--bin", program]);
    command::run(build.args(["--profile", profile]))?;
    let folder = if profile == DEV { DEV_FOLDER } else { profile };
    Ok(target()?.join(folder).join(program))
}

/// The profile of the running test program, by the folder that it is in.
///
/// # Errors
/// It is in none of Cargo's.
pub fn own_profile() -> Result<String> {
    let program = env::current_exe()?;
    let folder = program.ancestors().nth(2).and_then(Path::file_name);
    let folder = folder.context("not in a folder of Cargo's")?;
    let name = folder.to_str().context("not the name of a profile")?;
    let profile = if name == DEV_FOLDER { DEV } else { name };
    Ok(profile.to_owned())
}

/// Compiles the `verimount` program with optimisation, as users get it; returns its path.
///
/// # Errors
/// It does not compile.
pub fn build_verimount() -> Result<PathBuf> {
    build("verimount", RELEASE)
}

/// Compiles the program as for its own tests; returns its path.
///
/// # Errors
/// It does not compile.
pub fn build_tested_verimount() -> Result<PathBuf> {
    build("verimount", DEV)
}
