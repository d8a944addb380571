//! What a task needs of the machine: programs, installed from Debian's packages where this may
//! install them, and the FUSE device.

mod tools;

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use self::tools::{TOOLS, Tool};
use crate::command;

/// What programs are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What is measured, and what it is compared with.
    Bench,
    /// What works in mirrored directories.
    Conformance,
    /// Nothing but mounts.
    Demo,
    /// Booting kernels.
    KernelTest,
    /// What the tests compare with.
    Test,
}

impl Purpose {
    /// What all that is tested needs.
    pub const TESTS: &[Self] = &[Self::Test, Self::Conformance, Self::KernelTest];
}

/// Sees to it that everything is there that is needed for any of these purposes; says what is missing,
/// and what for. Takes no time where nothing is missing.
///
/// # Errors
/// Something is missing and this is not root; the message has the command to run.
pub fn ensure_ready(purposes: &[Purpose]) -> Result<()> {
    ensure_installed(purposes)?;
    ensure_fuse_is_open_to_all()
}

fn ensure_installed(purposes: &[Purpose]) -> Result<()> {
    let missing = missing_tools(purposes);
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
    packages.dedup();
    let reasons = reasons_for(&missing);
    if !is_root() {
        let packages = packages.join(" ");
        bail!(
            "some programs are missing:\n{reasons}install them with\n\n    \
             sudo apt-get install --yes {packages}\n"
        );
    }
    print!("== Installing what is missing\n{reasons}");
    command::run(&mut apt_get("update"))?;
    command::run(
        apt_get("install")
            .args(["--yes", "--no-install-recommends"])
            .args(packages),
    )?;
    let still = reasons_for(&missing_tools(purposes));
    ensure!(still.is_empty(), "installed, but not found:\n{still}");
    Ok(())
}

fn missing_tools(purposes: &[Purpose]) -> Vec<&'static Tool> {
    let tools = TOOLS.iter().filter(|tool| tool.is_for(purposes));
    tools.filter(|tool| !tool.is_installed()).collect()
}

/// What each of these does, in a line.
fn reasons_for(tools: &[&Tool]) -> String {
    let lines = tools.iter().map(|tool| format!("  {tool}\n"));
    lines.collect()
}

/// Lets every user open the FUSE device, as udev does; a machine without udev has it closed.
/// Debian's `fusermount3` opens it as the user who mounts.
fn ensure_fuse_is_open_to_all() -> Result<()> {
    const DEVICE: &str = "/dev/fuse";
    let metadata = fs::metadata(DEVICE).context("no /dev/fuse; does `modprobe fuse` help?")?;
    let open_to_all = metadata.permissions().mode() & 0o006 == 0o006;
    if is_root() && !open_to_all {
        println!("== Letting every user open {DEVICE}");
        fs::set_permissions(DEVICE, Permissions::from_mode(0o666))?;
    } else if File::options().read(true).write(true).open(DEVICE).is_err() {
        bail!("you may not open {DEVICE}; allow it with\n\n    sudo chmod 666 {DEVICE}\n");
    }
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn apt_get(subcommand: &str) -> Command {
    let mut apt_get = Command::new("apt-get");
    apt_get
        .arg("--quiet")
        .arg(subcommand)
        .env("DEBIAN_FRONTEND", "noninteractive");
    apt_get
}
