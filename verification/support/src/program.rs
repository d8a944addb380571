//! The main function that all programs share.

use std::process::ExitCode;

use anyhow::Result;

use crate::interrupt;

/// Runs the program's work, and prints its error. A signal that asks to stop ends it in order.
pub fn run(work: impl FnOnce() -> Result<()>) -> ExitCode {
    match interrupt::catch().and_then(|()| work()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
