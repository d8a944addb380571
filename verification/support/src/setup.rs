//! What a task needs on the machine: programs, which root installs from Debian's packages, and the
//! FUSE device.

mod tools;

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use self::tools::{TOOLS, Tool};
use crate::command;

/// The purposes of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Benchmarks, and the programs that they compare with.
    Bench,
    /// Layers of container images.
    Containers,
    /// The suites that run in mirrored directories.
    Conformance,
    /// Only mounts.
    Demo,
    /// What is published.
    Dist,
    /// Installing what is published.
    Installation,
    /// Booting kernels in a virtual machine.
    KernelTest,
    /// Signed models.
    Models,
    /// The Python package, and its tests.
    Python,
    /// The programs that tests compare with.
    Test,
}

impl Purpose {
    /// All purposes of tests.
    pub const TESTS: &[Self] = &[
        Self::Test,
        Self::Conformance,
        Self::Containers,
        Self::KernelTest,
    ];
}

/// Ensures that everything needed for any of these purposes is installed; prints what is missing and
/// for what. Returns at once if nothing is missing.
///
/// # Errors
/// Something is missing and this is not root; the message contains the command to run.
pub fn ensure_ready(purposes: &[Purpose]) -> Result<()> {
    ensure_installed(purposes)?;
    ensure_mount_table()?;
    ensure_fuse_is_open_to_all()
}

/// Ensures that all programs needed for any of these purposes are installed.
///
/// # Errors
/// As for [`ensure_ready`].
pub fn ensure_installed(purposes: &[Purpose]) -> Result<()> {
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

/// The purpose of each of these, on a line.
fn reasons_for(tools: &[&Tool]) -> String {
    let lines = tools.iter().map(|tool| format!("  {tool}\n"));
    lines.collect()
}

/// Lets `fusermount3` unmount: it reads this file, which not every container has.
fn ensure_mount_table() -> Result<()> {
    const TABLE: &str = "/etc/mtab";
    if fs::metadata(TABLE).is_ok() {
        return Ok(());
    }
    if !is_root() {
        bail!("there is no {TABLE}; make it with\n\n    sudo ln -s ../proc/self/mounts {TABLE}\n");
    }
    println!("== Making {TABLE}, which fusermount3 reads");
    Ok(symlink("../proc/self/mounts", TABLE)?)
}

/// Lets every user open the FUSE device, as udev does; without udev only root may open it. Debian's
/// `fusermount3` opens it as the user who mounts.
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
