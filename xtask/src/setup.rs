//! `cargo xtask setup`: what the tests need of the machine.

use anyhow::Result;
use verimount_support::setup::{self, Purpose};

pub(crate) fn run() -> Result<()> {
    setup::ensure_ready(Purpose::TESTS)?;
    println!("All that the tests need is there.");
    Ok(())
}
