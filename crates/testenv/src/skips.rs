//! Tests that cannot run here.

use std::{env, fmt::Display, fs::OpenOptions, io::Write as _, thread};

/// The path of a file to which each test that is skipped adds a line: its name, a tab, and the reason. `cargo xtask check`
/// and `cargo xtask test` set it, and print what is in it at the end.
pub const SKIPS: &str = "VERIMOUNT_SKIPS";

/// Notes that this test, or a part of it, is skipped for this reason.
///
/// # Panics
/// If [`SKIPS`] is set and the file cannot be written.
pub fn skip(reason: impl Display) {
    let reason = reason.to_string();
    eprintln!("skipped: {reason}");
    if let Some(path) = env::var_os(SKIPS) {
        let current = thread::current();
        let test = current.name().unwrap_or("?");
        let line = format!("{test}\t{}\n", reason.replace('\n', " "));
        // Other tests, and other users' ones, add lines at the same time.
        let file = OpenOptions::new().append(true).open(path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("skipped tests are counted");
    }
}
