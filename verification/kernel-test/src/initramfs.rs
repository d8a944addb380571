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

use crate::debian_kernel::Kernel;

/// The modules that are needed before the host's root directory is mounted.
const MODULES: [&str; 3] = ["virtio_pci", "9p", "9pnet_virtio"];

/// The tag with which the guest mounts the host's root directory.
pub(crate) const HOST: &str = "host";

/// Mounts the host's root directory and continues in it.
const INIT: &str = "#!/bin/busybox sh
set -e
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod /modules/$module; done < /modules/order
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host
for folder in proc sys dev; do mount -o move /$folder /host/$folder; done
mount -t tmpfs run /host/run
set +e
chroot /host /bin/sh -c \"$(cat /command)\" 2>&1 | cat
echo o > /host/proc/sysrq-trigger
sleep 60
";

/// Packs an initial file system for the guest, which runs `shell_command` in the host's root directory
/// and powers off.
pub(crate) fn pack(kernel: &Kernel, shell_command: &str, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("root");
    for name in ["bin", "dev", "host", "modules", "proc", "sys"] {
        fs::create_dir_all(root.join(name))?;
    }
    let busybox = tools::locate("busybox").context("no busybox")?;
    fs::copy(busybox, root.join("bin/busybox"))?;
    fs::write(root.join("init"), INIT)?;
    fs::set_permissions(root.join("init"), PermissionsExt::from_mode(0o755))?;
    fs::write(root.join("command"), shell_command)?;
    let mut order = String::new();
    for module in kernel.modules(&MODULES)? {
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
