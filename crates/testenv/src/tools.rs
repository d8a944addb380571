//! Programs that tests compare with.

use std::{env, path::PathBuf};

/// Set by `cargo xtask test`, which installs every tool first: a missing one is then a failure.
pub const REQUIRE_TOOLS: &str = "VERIMOUNT_REQUIRE_TOOLS";

/// Where the program `name` is, or `None` after a note on stderr, for the test to skip its work.
///
/// # Panics
/// If the program is missing and [`REQUIRE_TOOLS`] is set.
pub fn find(name: &str) -> Option<PathBuf> {
    let found = locate(name);
    if found.is_none() {
        assert!(
            env::var_os(REQUIRE_TOOLS).is_none(),
            "{name} is not installed, and {REQUIRE_TOOLS} is set"
        );
        eprintln!("skipped: {name} is not installed");
    }
    found
}

/// Where the program `name` is.
pub fn locate(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian keeps some of the oracles where only root looks by default.
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
