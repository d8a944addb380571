//! The `verimount` command that the tests of this package run. Cargo compiles no program of another package for tests,
//! so they ask for it.

use std::{env, path::PathBuf, sync::OnceLock};

use verimount_support::workspace::{DEV, build};

/// Environment variable with the path of another copy of the command, for tests that cannot access the
/// built one.
pub const BINARY: &str = "VERIMOUNT_TEST_BINARY";

/// The command under test: the one that [`BINARY`] names, else this workspace's, compiled when it is first asked for.
///
/// # Panics
/// If it does not compile.
pub fn binary() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    env::var_os(BINARY).map_or_else(
        || {
            BUILT
                .get_or_init(|| build("verimount", &profile()).unwrap())
                .clone()
        },
        PathBuf::from,
    )
}

/// The profile of this program, by the folder that it is in.
fn profile() -> String {
    let program = env::current_exe().unwrap();
    let folder = program.ancestors().nth(2).and_then(|path| path.file_name());
    match folder.and_then(|name| name.to_str()) {
        None | Some("debug") => DEV.to_owned(),
        Some(name) => name.to_owned(),
    }
}
