//! The package below systemd, as the first process of a virtual machine.

use std::{fs, path::Path, process::Command};

use anyhow::{Result, ensure};
use verimount_machine::{Archive, Kernel, Machine};
use verimount_support::command;

use crate::{
    Script, User,
    debian::{Debian, folder_in_memory},
};

const PREPARE: Script = Script::new("prepare.sh", include_str!("prepare.sh"), User::Root);

/// What runs once the machine has booted, and its last line.
const BOOTED: (&str, &str) = ("booted.sh", include_str!("booted.sh"));
const LAST: &str = "ALL CHECKED";

/// The size of the machine's disk, in mke2fs's notation.
const DISK: &str = "2G";

/// Boots a Debian with the package, and checks that its units start, reload, restart and stop as they should.
pub(crate) fn check(package: &Path, target: &Path, place: &Path) -> Result<()> {
    // Where the tests with kernels keep it.
    let kernel = Kernel::unpacked(&Archive::of_release(), &target.join("kernel-test"))?;
    let debian = Debian::fresh(target, place)?;
    debian.give(package, "verimount.deb")?;
    debian.write(BOOTED.0, BOOTED.1)?;
    PREPARE.run(&debian)?;
    let folder = folder_in_memory(place.join("disk"))?;
    let disk = folder.join("disk.img");
    let tree = folder.join("tree");
    fs::create_dir(&tree)?;
    // Without what is mounted inside.
    let mut bind = Command::new("mount");
    command::run(bind.arg("--bind").arg(debian.root()).arg(&tree))?;
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.args(["-q", "-t", "ext4", "-d"]).arg(&tree);
    command::run(mke2fs.arg(&disk).arg(DISK))?;
    let mut is_whole = false;
    let machine = Machine::of_disk(&kernel, &disk)?.start()?;
    machine.follow(&mut |line| {
        println!("{line}");
        is_whole |= line == LAST;
    })?;
    ensure!(is_whole, "the machine ended before it was checked");
    Ok(())
}
