//! The `verimount` command that the tests of this package run. Cargo compiles no program of another package for tests,
//! so they ask for it.

use std::{env, path::PathBuf, sync::OnceLock};

use verimount_support::workspace::{build, own_profile};

/// Environment variable with the path of another copy of the command, for tests that cannot access the
/// built one.
pub const BINARY: &str = "VERIMOUNT_TEST_BINARY";

/// The command under test: the one that [`BINARY`] names, else this workspace's, compiled when it is first asked for.
///
/// # Panics
/// If it does not compile.
pub fn binary() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = || build("verimount", &own_profile().unwrap()).unwrap();
    env::var_os(BINARY).map_or_else(|| BUILT.get_or_init(built).clone(), PathBuf::from)
}
