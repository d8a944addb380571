//! Loop devices, which need root.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::command;

/// A loop device for a file. It is detached when this is dropped.
#[derive(Debug)]
pub struct LoopDevice(PathBuf);

impl LoopDevice {
    /// Attaches `file`, with further options of losetup.
    ///
    /// # Errors
    /// losetup fails.
    pub fn attach(file: &Path, options: &[&str]) -> Result<Self> {
        let mut attach = Command::new("losetup");
        attach.args(["--find", "--show"]).args(options).arg(file);
        Ok(Self(command::stdout(&mut attach)?.into()))
    }

    /// The path of the device.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        if let Err(error) = command::run(Command::new("losetup").arg("--detach").arg(&self.0)) {
            eprintln!("{error:#}");
        }
    }
}
