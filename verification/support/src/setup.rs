//! What a task needs of the machine: programs, installed from Debian's packages where this may
//! install them, and the FUSE device.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use verimount_testenv::tools;

use crate::command;

/// What programs are needed for.
#[derive(Debug, Clone, Copy)]
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

/// A program and the Debian package that has it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const fn tool(program: &'static str, package: &'static str) -> Tool {
    Tool { program, package }
}

/// Mounts as an ordinary user.
const MOUNT: &[Tool] = &[tool("fusermount3", "fuse3")];

/// The programs that tests compare with, and the compiler for libFuzzer.
const TEST: &[Tool] = &[
    tool("fio", "fio"),
    tool("fsverity", "fsverity"),
    tool("g++", "g++"),
    tool("genromfs", "genromfs"),
    tool("git", "git"),
    tool("grub-fstest", "grub-common"),
    tool("integritysetup", "cryptsetup-bin"),
    tool("losetup", "mount"),
    tool("minisign", "minisign"),
    tool("mkfs.ext4", "e2fsprogs"),
    tool("nbdcopy", "libnbd-bin"),
    tool("openssl", "openssl"),
    tool("python3", "python3"),
    tool("qemu-img", "qemu-utils"),
    tool("setfacl", "acl"),
    tool("sqlite3", "sqlite3"),
    tool("strace", "strace"),
    tool("veritysetup", "cryptsetup-bin"),
];

/// What works in mirrored directories, and makes the file systems that they are on.
const CONFORMANCE: &[Tool] = &[
    tool("git", "git"),
    tool("mkfs.btrfs", "btrfs-progs"),
    tool("mkfs.ext4", "e2fsprogs"),
    tool("mkfs.xfs", "xfsprogs"),
    tool("sqlite3", "sqlite3"),
];

/// What benchmarks measure with, and what they compare with.
const BENCH: &[Tool] = &[
    tool("bindfs", "bindfs"),
    tool("fio", "fio"),
    tool("fsverity", "fsverity"),
    tool("fuse-overlayfs", "fuse-overlayfs"),
    tool("git", "git"),
    tool("mergerfs", "mergerfs"),
    tool("mkfs.btrfs", "btrfs-progs"),
    tool("mkfs.erofs", "erofs-utils"),
    tool("mkfs.ext4", "e2fsprogs"),
    tool("mksquashfs", "squashfs-tools"),
    tool("nbdkit", "nbdkit"),
    tool("openssl", "openssl"),
    tool("squashfuse", "squashfuse"),
];

/// What unpacks and boots Debian's kernel, and what is run in it.
const KERNEL_TEST: &[Tool] = &[
    tool("busybox", "busybox-static"),
    tool("cpio", "cpio"),
    tool("depmod", "kmod"),
    tool("dmsetup", "dmsetup"),
    tool("fsverity", "fsverity"),
    tool("genromfs", "genromfs"),
    tool("integritysetup", "cryptsetup-bin"),
    tool("mkfs.ext4", "e2fsprogs"),
    tool("qemu-system-x86_64", "qemu-system-x86"),
    tool("veritysetup", "cryptsetup-bin"),
    tool("xz", "xz-utils"),
];

impl Purpose {
    fn tools(self) -> impl Iterator<Item = &'static Tool> {
        let further = match self {
            Self::Bench => BENCH,
            Self::Conformance => CONFORMANCE,
            Self::Demo => &[],
            Self::KernelTest => KERNEL_TEST,
            Self::Test => TEST,
        };
        MOUNT.iter().chain(further)
    }

    fn missing_packages(self) -> Vec<&'static str> {
        let missing = self
            .tools()
            .filter(|tool| tools::locate(tool.program).is_none());
        missing.map(|tool| tool.package).collect()
    }
}

/// Sees to it that everything needed is there. Takes no time where nothing is missing.
///
/// # Errors
/// Something is missing and this is not root; the message has the command to run.
pub fn ensure_ready(purpose: Purpose) -> Result<()> {
    ensure_installed(purpose)?;
    ensure_fuse_is_open_to_all()
}

fn ensure_installed(purpose: Purpose) -> Result<()> {
    let missing = purpose.missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if !is_root() {
        bail!(
            "some programs are missing; install them with\n\n    \
             sudo apt-get install --yes {packages}\n"
        );
    }
    println!("== Installing {packages}");
    command::run(&mut apt_get("update"))?;
    command::run(
        apt_get("install")
            .args(["--yes", "--no-install-recommends"])
            .args(&missing),
    )?;
    let missing = purpose.missing_packages().join(" ");
    ensure!(
        missing.is_empty(),
        "installed, but still not found: {missing}"
    );
    Ok(())
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
