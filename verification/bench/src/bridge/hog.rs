//! A user of a shared bridge who takes what they can get.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::lab::Lab;

/// The user, a program for Python.
const HOG: &str = include_str!("hog.py");

/// The other user. They end with this.
pub(super) struct Hog(Child);

impl Hog {
    pub(super) fn start(lab: &Lab, taken: &str, source: &Path, mount: &Path) -> Result<Self> {
        let mut python = Command::new("python3");
        python.args(["-c", HOG, taken]).args([source, mount]);
        python.arg(lab.sizes.copied_file.to_string());
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hog = Self(python.spawn().context("cannot run python3")?);
        let mut said = String::new();
        let stdout = hog.0.stdout.take().context("a piped output")?;
        BufReader::new(stdout).read_line(&mut said)?;
        ensure!(said == "taken\n", "another user takes no {taken}");
        Ok(hog)
    }

    pub(super) fn end(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        let status = self.0.wait()?;
        ensure!(status.success(), "another user: {status}");
        Ok(())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
