//! Archives of Debian packages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use verimount_support::command;

/// Debian's keys, from the package `debian-archive-keyring`.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

const MIRROR: &str = "http://deb.debian.org/debian";

/// An archive of Debian packages, from which they are fetched and not installed.
pub struct Archive {
    /// Options for apt that select it.
    options: Vec<String>,
}

impl Archive {
    /// The archive from which this machine is installed.
    #[must_use]
    pub fn of_release() -> Self {
        Self {
            options: Vec::new(),
        }
    }

    /// Newer packages for the same release. This machine's own list of archives is not changed: apt's state
    /// for this one is in `folder`.
    ///
    /// # Errors
    /// There is no such archive for this machine, or it cannot be reached.
    pub fn of_backports(folder: &Path) -> Result<Self> {
        let file = |name: &str| folder.join(name);
        for name in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(file(name))?;
        }
        let release = codename()?;
        let line = format!("deb [signed-by={KEYS}] {MIRROR} {release}-backports main\n");
        fs::write(file("sources.list"), line)?;
        let option = |name: &str, path: PathBuf| format!("{name}={}", path.display());
        let archive = Self {
            options: vec![
                option("Dir::Etc::SourceList", file("sources.list")),
                option("Dir::Etc::SourceParts", "-".into()),
                option("Dir::State::Lists", file("lists")),
                option("Dir::Cache", file("cache")),
            ],
        };
        command::stdout(archive.apt("apt-get").args(["--quiet", "update"]))?;
        Ok(archive)
    }

    /// One of apt's programs.
    #[must_use]
    pub fn apt(&self, program: &str) -> Command {
        let mut apt = Command::new(program);
        for option in &self.options {
            apt.args(["--option", option]);
        }
        apt
    }
}

/// The code name of this machine's Debian release.
fn codename() -> Result<String> {
    let release = fs::read_to_string("/etc/os-release")?;
    let mut lines = release.lines();
    lines
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(str::to_owned)
        .context("/etc/os-release names no release of Debian")
}
