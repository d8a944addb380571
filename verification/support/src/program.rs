//! How each of the programs begins and ends.

use std::process::ExitCode;

use anyhow::Result;

use crate::interrupt;

/// Does the program's work, and says what it failed with. A signal that asks to stop ends it in order.
pub fn run(work: impl FnOnce() -> Result<()>) -> ExitCode {
    match interrupt::catch().and_then(|()| work()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
