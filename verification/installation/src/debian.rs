//! A fresh minimal Debian.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use verimount_support::{command, debian::fetched};

/// The folder inside with what is given to it.
const GIVEN: &str = "given";

/// What of this machine is visible inside.
const MOUNTED: [&str; 3] = ["dev", "proc", "sys"];

/// A copy of it, which vanishes with this process's mount namespace.
pub(crate) struct Debian {
    root: PathBuf,
}

impl Debian {
    /// A fresh one. What is done to it is below the folder `place`.
    pub(crate) fn fresh(target: &Path, place: &Path) -> Result<Self> {
        let base = fetched(target)?;
        let memory = folder_in_memory(place.join("running"))?;
        let [upper, work, root] = ["upper", "work", "root"].map(|name| memory.join(name));
        for folder in [&upper, &work, &root] {
            fs::create_dir(folder)?;
        }
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            base.display(),
            upper.display(),
            work.display()
        );
        let mut mount = Command::new("mount");
        command::run(
            mount
                .args(["-t", "overlay", "overlay", "-o", &options])
                .arg(&root),
        )?;
        for name in MOUNTED {
            let mut bind = Command::new("mount");
            bind.arg("--rbind").arg(Path::new("/").join(name));
            command::run(bind.arg(root.join(name)))?;
        }
        fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf"))?;
        fs::create_dir(root.join(GIVEN))?;
        Ok(Self { root })
    }

    /// Its root directory, seen from outside.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Copies a file to the folder `/given` inside.
    pub(crate) fn give(&self, file: &Path, name: &str) -> Result<()> {
        fs::copy(file, self.root.join(GIVEN).join(name))?;
        Ok(())
    }

    /// Writes a file in that folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.root.join(GIVEN).join(name), text)?)
    }

    /// A command whose arguments are a program inside and its arguments.
    pub(crate) fn command(&self) -> Command {
        let mut chroot = Command::new("chroot");
        chroot.arg(&self.root).env_clear();
        chroot.env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
        chroot.env("DEBIAN_FRONTEND", "noninteractive");
        chroot.current_dir("/");
        chroot
    }
}

/// An empty folder in memory, in this process's own mount namespace, with which it vanishes. Nothing may remove what is in
/// it: this machine's devices are mounted inside.
pub(crate) fn folder_in_memory(place: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&place)?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "mode=755", "tmpfs"]);
    command::run(mount.arg(&place))?;
    Ok(place)
}
