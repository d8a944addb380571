//! Debian packages that are pinned by their checksums, fetched and unpacked.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{self, Command},
};

use anyhow::{Context, Result, bail};

use crate::{command, download::download, interrupt};

/// Debian's archive, and that of its past: the first no longer has a package when a newer version replaces it.
const ARCHIVES: [&str; 2] = [
    "http://deb.debian.org/debian",
    "http://snapshot.debian.org/archive/debian/20261122T000000Z",
];

/// Packages that are unpacked in one folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packages {
    /// The folder's name.
    pub(super) name: &'static str,
    /// The checksum and the path in the archive of each, a line each, as `sha256sum` prints them.
    pub(super) list: &'static str,
}

/// A package in an archive.
struct Package {
    sha256: &'static str,
    path: &'static str,
}

impl Packages {
    /// The folder in `folder` where they are unpacked. They are fetched if they are not, or if others are.
    pub(super) fn unpacked(&self, folder: &Path) -> Result<PathBuf> {
        let unpacked = folder.join(self.name);
        let record = unpacked.join("packages.sha256");
        if fs::read_to_string(&record).is_ok_and(|list| list == self.list) {
            return Ok(unpacked);
        }
        // Complete or absent, even if several tasks do this at the same time.
        let work = folder.join(format!("{}.{}", self.name, process::id()));
        fs::create_dir_all(&work)?;
        let made = self.unpack(&work).and_then(|()| {
            fs::write(work.join("packages.sha256"), self.list)?;
            if unpacked.exists() {
                fs::remove_dir_all(&unpacked)?;
            }
            Ok(fs::rename(&work, &unpacked)?)
        });
        if made.is_err() {
            // What failed is reported, not this.
            let _ = fs::remove_dir_all(&work);
        }
        made.with_context(|| format!("cannot unpack {}", self.name))?;
        Ok(unpacked)
    }

    fn unpack(&self, folder: &Path) -> Result<()> {
        let packages = self.packages()?;
        println!("Fetching {}: {} packages", self.name, packages.len());
        let fetched = folder.join("fetched");
        fs::create_dir(&fetched)?;
        fetch(&packages, &fetched)?;
        for package in &packages {
            let mut unpack = Command::new("dpkg-deb");
            unpack.arg("--extract").arg(package.file(&fetched));
            command::run(unpack.arg(folder))?;
        }
        Ok(fs::remove_dir_all(fetched)?)
    }

    fn packages(&self) -> Result<Vec<Package>> {
        let lines = self.list.lines().filter(|line| !line.starts_with('#'));
        let package = |line: &'static str| {
            let (sha256, path) = line.split_once("  ").context(line)?;
            Ok(Package { sha256, path })
        };
        lines.map(package).collect()
    }
}

impl Package {
    /// Its file in this folder.
    fn file(&self, folder: &Path) -> PathBuf {
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        folder.join(name)
    }
}

/// Fetches packages into a folder, each from the first archive that has it. None is there whose checksum differs.
fn fetch(packages: &[Package], folder: &Path) -> Result<()> {
    for archive in ARCHIVES {
        let missing: Vec<_> = packages
            .iter()
            .map(|package| (package, package.file(folder)))
            .filter(|(_, file)| !file.is_file())
            .map(|(package, file)| (format!("{archive}/{}", package.path), file, package.sha256))
            .collect();
        let missing: Vec<_> = missing
            .iter()
            .map(|(url, file, sha256)| (&**url, &**file, *sha256))
            .collect();
        let fetched = download(&missing);
        interrupt::check()?;
        if fetched.is_ok() {
            return Ok(());
        }
    }
    bail!("no archive has all packages as they are expected");
}
