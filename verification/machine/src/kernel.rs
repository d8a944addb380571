//! Debian's kernels.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use verimount_support::command;

use crate::archive::Archive;

/// Debian's package that depends on the newest kernel.
const NEWEST: &str = "linux-image-amd64";

/// Debian's kernel and its modules, unpacked but not installed.
pub struct Kernel {
    root: PathBuf,
    version: String,
}

impl Kernel {
    /// The newest kernel of an archive, unpacked below `folder`. It is fetched if it is missing.
    ///
    /// # Errors
    /// It cannot be fetched or unpacked.
    pub fn unpacked(archive: &Archive, folder: &Path) -> Result<Self> {
        let depends = command::stdout(archive.apt("apt-cache").args(["depends", NEWEST]))?;
        let package = depends
            .split_whitespace()
            .find(|word| word.starts_with("linux-image-") && *word != NEWEST)
            .with_context(|| format!("{NEWEST} depends on no kernel"))?;
        let version = package.trim_start_matches("linux-image-").to_owned();
        let kernel = Self {
            root: folder.join(&version),
            version,
        };
        if !kernel.image().is_file() {
            kernel.fetch(archive, package, folder)?;
        }
        Ok(kernel)
    }

    /// The version, as in `uname -r`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The bootable image.
    #[must_use]
    pub fn image(&self) -> PathBuf {
        self.root.join(format!("boot/vmlinuz-{}", self.version))
    }

    /// The directory that contains `lib/modules`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files of these modules, except for built-in ones, and of their dependencies. Each file comes
    /// after its dependencies.
    ///
    /// # Errors
    /// It has no such module.
    pub fn modules(&self, names: &[&str]) -> Result<Vec<PathBuf>> {
        let folder = self.root.join("lib/modules").join(&self.version);
        let table = fs::read_to_string(folder.join("modules.dep"))?;
        let builtin = fs::read_to_string(folder.join("modules.builtin"))?;
        let mut files = Vec::new();
        for name in names {
            if builtin.lines().any(|file| is_module(file, name)) {
                continue;
            }
            let line = table
                .lines()
                .find(|line| {
                    line.split_once(':')
                        .is_some_and(|(file, _)| is_module(file, name))
                })
                .with_context(|| format!("Linux {} has no module {name}", self.version))?;
            // Dependencies are listed in reverse order.
            for file in line.split([' ', ':']).filter(|file| !file.is_empty()).rev() {
                let file = folder.join(file);
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }

    fn fetch(&self, archive: &Archive, package: &str, folder: &Path) -> Result<()> {
        println!("Fetching {package}");
        let download = folder.join("download");
        fs::create_dir_all(&download)?;
        command::run(
            archive
                .apt("apt-get")
                .args(["--quiet", "download", package])
                .current_dir(&download),
        )?;
        let fetched = fs::read_dir(&download)?
            .next()
            .context("nothing was fetched")??;
        let unpacked = folder.join("unpacked");
        command::run(
            Command::new("dpkg-deb")
                .arg("--extract")
                .arg(fetched.path())
                .arg(&unpacked),
        )?;
        command::run(
            Command::new("depmod")
                .arg("--basedir")
                .arg(&unpacked)
                .arg(&self.version),
        )?;
        fs::rename(unpacked, &self.root)?;
        Ok(fs::remove_dir_all(download)?)
    }
}

/// Newer kernels' modules are compressed.
fn is_module(file: &str, name: &str) -> bool {
    let file = Path::new(file).file_name().and_then(|file| file.to_str());
    file.is_some_and(|file| {
        file.strip_suffix(".xz").unwrap_or(file).strip_suffix(".ko") == Some(name)
    })
}
