//! Finds other programs with which tests compare results.

use std::{env, path::PathBuf};

use crate::skip;

/// Set by `cargo xtask test`, which installs all tools first: then a missing one is a failure.
pub const REQUIRE_TOOLS: &str = "VERIMOUNT_REQUIRE_TOOLS";

/// The path of the program `name`. `None`, after a note on stderr, if the test must be skipped.
///
/// # Panics
/// If the program is missing and [`REQUIRE_TOOLS`] is set.
pub fn find(name: &str) -> Option<PathBuf> {
    let found = find_optional(name);
    assert!(
        found.is_some() || env::var_os(REQUIRE_TOOLS).is_none(),
        "{name} is not installed, and {REQUIRE_TOOLS} is set"
    );
    found
}

/// The path of the program `name`, which `cargo xtask test` does not install: it may be missing even when
/// [`REQUIRE_TOOLS`] is set. `None`, after a note on stderr, if the test must be skipped.
pub fn find_optional(name: &str) -> Option<PathBuf> {
    let found = locate(name);
    if found.is_none() {
        skip(format_args!("{name} is not installed"));
    }
    found
}

/// The path of the program `name`.
pub fn locate(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // On Debian some of them are in directories that only root has in its PATH.
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
