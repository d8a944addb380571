//! A fresh minimal Debian.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use tempfile::TempDir;
use verimount_support::command;

/// The release.
const SUITE: &str = "bookworm";

/// The folder inside with what is given to it.
const GIVEN: &str = "given";

/// What of this machine is visible inside.
const MOUNTED: [&str; 3] = ["dev", "proc", "sys"];

/// A copy of it, which vanishes with this process's mount namespace.
pub(crate) struct Debian {
    _folder: TempDir,
    root: PathBuf,
}

impl Debian {
    /// A fresh one, above the one that is kept in the folder `kept` once it was fetched.
    pub(crate) fn fresh(kept: &Path) -> Result<Self> {
        let base = fetched(kept)?;
        let folder = tempfile::Builder::new().prefix("verimount-").tempdir()?;
        let memory = folder.path();
        command::run(
            Command::new("mount")
                .args(["-t", "tmpfs", "tmpfs"])
                .arg(memory),
        )?;
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
        Ok(Self {
            _folder: folder,
            root,
        })
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

/// The folder with a Debian that nothing was done to; fetched the first time.
fn fetched(kept: &Path) -> Result<PathBuf> {
    let base = kept.join(SUITE);
    if base.exists() {
        return Ok(base);
    }
    fs::create_dir_all(kept)?;
    // It has its name only once it is whole.
    let partial = tempfile::Builder::new()
        .prefix("partial-")
        .tempdir_in(kept)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", SUITE]);
    command::run(debootstrap.arg(partial.path()))?;
    fs::rename(partial.keep(), &base)?;
    Ok(base)
}
