//! `cargo xtask setup`: installs what the tests need on the machine.

use anyhow::Result;
use verimount_support::setup::{self, Purpose};

pub(crate) fn run() -> Result<()> {
    setup::ensure_ready(Purpose::TESTS)?;
    println!("Everything that the tests need is installed.");
    Ok(())
}
