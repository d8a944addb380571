//! Programs that Debian has no packages of, installed by Cargo.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{command, workspace::cargo};

/// A program and the versions of the package of its name that are known to work.
pub(crate) struct CargoTool {
    pub(crate) program: &'static str,
    pub(crate) versions: &'static str,
}

impl CargoTool {
    /// Where the program is, below Cargo's target folder: one from elsewhere may be another of the
    /// same name. The first time it is compiled, which may take some minutes.
    pub(crate) fn installed(&self, target: &Path) -> Result<PathBuf> {
        let tools = target.join("tools");
        let program = tools.join("bin").join(self.program);
        if !program.is_file() {
            println!(
                "Installing {} in {}, once; this may take some minutes",
                self.program,
                tools.display()
            );
            let mut install = cargo("install");
            // Not optimised, which would take longer than all that it does for us.
            install
                .args(["--locked", "--debug", "--root"])
                .arg(&tools)
                .arg(format!("{}@{}", self.program, self.versions));
            command::run(&mut install)?;
        }
        Ok(program)
    }
}
