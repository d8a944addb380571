//! The file system with which the guest begins.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use verimount_support::command;
use verimount_testenv::tools;

use crate::kernel::Kernel;

/// The tag with which a guest mounts the host's root directory.
pub(crate) const HOST_TAG: &str = "host";

/// Loads modules, before [`HOST`] or [`DISK`] goes on.
const BEGIN: &str = "#!/bin/busybox sh
set -e
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod /modules/$module; done < /modules/order
";

/// Continues in the host's root directory, and powers off.
const HOST: &str = "
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /root
for folder in proc sys dev; do mount -o move /$folder /root/$folder; done
mount -t tmpfs run /root/run
set +e
chroot /root /bin/sh -c \"$(cat /command)\" 2>&1 | cat
echo o > /root/proc/sysrq-trigger
sleep 60
";

/// Continues with what the first disk has as its first process.
const DISK: &str = "
mount -t ext4 /dev/vda /root
for folder in proc sys dev; do mount -o move /$folder /root/$folder; done
exec switch_root /root /sbin/init
";

/// Where a guest goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Root<'a> {
    /// In the host's root directory, where it runs this command of the shell and powers off.
    Host(&'a str),
    /// On its first disk, an ext4 file system that has `/sbin/init`, but no modules of the kernel.
    Disk,
}

impl Root<'_> {
    /// The modules that are loaded first.
    fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Host(_) => &["virtio_pci", "9p", "9pnet_virtio"],
            Self::Disk => &[
                "virtio_pci",
                "virtio_blk",
                "crc32c_generic",
                "ext4",
                "autofs4",
                "fuse",
            ],
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::Host(_) => HOST,
            Self::Disk => DISK,
        }
    }
}

/// Packs an initial file system for a guest that goes on in `next`.
pub(crate) fn pack(kernel: &Kernel, next: Root<'_>, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    for name in ["bin", "dev", "modules", "proc", "root", "sys"] {
        fs::create_dir_all(root.join(name))?;
    }
    let busybox = tools::locate("busybox").context("no busybox")?;
    fs::copy(busybox, root.join("bin/busybox"))?;
    fs::write(root.join("init"), [BEGIN, next.script()].concat())?;
    fs::set_permissions(root.join("init"), PermissionsExt::from_mode(0o755))?;
    if let Root::Host(shell_command) = next {
        fs::write(root.join("command"), shell_command)?;
    }
    let mut order = String::new();
    for module in kernel.modules(next.modules())? {
        let name = module.file_stem().and_then(|name| name.to_str());
        let name = name.context("a module without a name")?;
        unpack(&module, &root.join("modules").join(name))?;
        order += name;
        order += "\n";
    }
    fs::write(root.join("modules/order"), order)?;
    archive(&root, folder.join("initramfs"))
}

/// Copies a module, which may be compressed.
fn unpack(module: &Path, to: &Path) -> Result<()> {
    if module.extension() == Some(OsStr::new("xz")) {
        let mut xz = Command::new("xz");
        xz.args(["--decompress", "--stdout"]).arg(module);
        return command::run(xz.stdout(File::create(to)?));
    }
    fs::copy(module, to)?;
    Ok(())
}

fn archive(root: &Path, archive: PathBuf) -> Result<PathBuf> {
    let mut find = Command::new("find")
        .current_dir(root)
        .arg(".")
        .stdout(Stdio::piped())
        .spawn()?;
    let names = find.stdout.take().context("no output of find")?;
    let mut cpio = Command::new("cpio");
    cpio.args(["--create", "--format=newc", "--quiet"])
        .current_dir(root)
        .stdin(names)
        .stdout(File::create(&archive)?);
    command::run(&mut cpio)?;
    find.wait()?;
    Ok(archive)
}
