//! Environments of Python's, with packages from PyPI.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::command;

/// The Python of the system, for which Debian has packages.
pub const SYSTEM: &str = "/usr/bin/python3";

/// An environment of its own, with packages.
#[derive(Debug)]
pub struct Venv(PathBuf);

impl Venv {
    /// A new one of the Python `python`, in the place of an older one.
    ///
    /// # Errors
    /// The older one cannot be removed, or this Python makes none: Debian's needs the package python3-venv.
    pub fn new(python: &Path, folder: &Path) -> Result<Self> {
        Self::with(&[], python, folder)
    }

    /// A new one of the Python `python`, in the place of an older one, in which the packages of that Python are found,
    /// too.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn extending(python: &Path, folder: &Path) -> Result<Self> {
        Self::with(&["--system-site-packages"], python, folder)
    }

    /// The one that is in this folder.
    #[must_use]
    pub const fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn with(options: &[&str], python: &Path, folder: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let mut venv = without_settings(python);
        command::run(venv.args(["-m", "venv"]).args(options).arg(folder))?;
        Ok(Self(folder.to_owned()))
    }

    /// Installs packages, given by these options and arguments of `pip install`.
    ///
    /// # Errors
    /// They cannot be fetched or installed.
    pub fn install(&self, options: &[&str], files: &[&Path]) -> Result<()> {
        let mut pip = self.python();
        pip.args([
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "install",
        ]);
        command::run(pip.args(options).args(files))
    }

    /// Its Python.
    #[must_use]
    pub fn python(&self) -> Command {
        without_settings(&self.program("python"))
    }

    /// A program in it.
    #[must_use]
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = without_settings(&self.program(program));
        command.args(arguments);
        command
    }

    /// The path of a program in it.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.0.join("bin").join(name)
    }
}

/// A program of Python's, without what is set for another Python.
#[must_use]
pub fn without_settings(program: &Path) -> Command {
    let mut command = Command::new(program);
    for name in ["PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"] {
        command.env_remove(name);
    }
    command
}
