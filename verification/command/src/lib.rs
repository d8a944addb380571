//! The `verimount` command that the tests of this package run. Cargo compiles no program of another package for tests,
//! so they ask for it.

use std::{env, path::PathBuf, process::Stdio, sync::OnceLock};

use serde_json::Value;
use verimount_support::workspace::cargo;

/// Environment variable with the path of another copy of the command, for tests that cannot access the
/// built one.
pub const BINARY: &str = "VERIMOUNT_TEST_BINARY";

/// The command under test: the one that [`BINARY`] names, else this workspace's, compiled when it is first asked for.
///
/// # Panics
/// If it does not compile.
pub fn binary() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    env::var_os(BINARY).map_or_else(|| BUILT.get_or_init(built).clone(), PathBuf::from)
}

/// Compiles the command in the same way as this program.
fn built() -> PathBuf {
    let mut build = cargo("build");
    build.args(["--locked", "--package", "verimount-cli"]);
    build.args(["--profile", &profile()]);
    build.arg("--message-format=json-render-diagnostics");
    let output = build.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "the command does not compile");
    let messages = str::from_utf8(&output.stdout).unwrap();
    let executable = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).unwrap();
        Some(message["executable"].as_str()?.into())
    });
    executable.expect("the package has one program")
}

/// The profile of this program, by the folder that it is in.
fn profile() -> String {
    let program = env::current_exe().unwrap();
    let folder = program.ancestors().nth(2).and_then(|path| path.file_name());
    match folder.and_then(|name| name.to_str()) {
        None | Some("debug") => "dev".to_owned(),
        Some(name) => name.to_owned(),
    }
}
