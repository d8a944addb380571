//! The files that an installation has, in their places below `/`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result};
use verimount_support::{command, workspace::root};

use super::files;

/// The shells, and where each looks for completions of `verimount`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/verimount"),
    ("fish", "usr/share/fish/vendor_completions.d/verimount.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_verimount"),
];

/// Lays them out in the new folder `tree`.
pub(super) fn lay_out(binary: &Path, notices: &str, tree: &Path) -> Result<()> {
    let command = tree.join("usr/bin/verimount");
    write(&command, &fs::read(binary)?)?;
    fs::set_permissions(&command, fs::Permissions::from_mode(0o755))?;
    let helper = tree.join("usr/sbin/mount.fuse.verimount");
    new_folder_of(&helper)?;
    symlink("../bin/verimount", helper)?;
    for (shell, place) in COMPLETIONS {
        let script = command::stdout(Command::new(&command).args(["completions", shell]))?;
        write(&tree.join(place), (script + "\n").as_bytes())?;
    }
    let pages = tree.join("usr/share/man/man1");
    command::run(Command::new(&command).arg("man").arg(&pages))?;
    command::run(Command::new("gzip").arg("-9n").args(files(&pages)?))?;
    for unit in files(&root().join("packaging/systemd"))? {
        let name = unit.file_name().context("a unit has a name")?;
        let place = tree.join("usr/lib/systemd/system").join(name);
        write(&place, &fs::read(&unit)?)?;
    }
    let documents = tree.join("usr/share/doc/verimount");
    write(&documents.join("copyright"), notices.as_bytes())?;
    write(
        &documents.join("README.md"),
        &fs::read(root().join("README.md"))?,
    )
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    new_folder_of(path)?;
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

fn new_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().context("it is in a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}
