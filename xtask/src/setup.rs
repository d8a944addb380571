//! `cargo xtask setup`: installs what the tests need on the machine.

use anyhow::Result;
use verimount_support::{
    newer, seaweedfs,
    setup::{self, Purpose},
    workspace::target,
};

pub(crate) fn run() -> Result<()> {
    setup::ensure_ready(Purpose::TESTS)?;
    println!("Everything that the tests need is installed.");
    let target = target()?;
    for newer in newer::ALL {
        let programs = newer.installed(&target)?;
        println!("{} is in {}", newer.name(), programs.display());
    }
    let programs = seaweedfs::installed(&target)?;
    println!("SeaweedFS is in {}", programs.display());
    Ok(())
}
