//! Programs that Debian has no packages of, installed by Cargo.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{command, workspace::cargo};

/// A program and the versions of its package that are known to work.
pub struct CargoTool {
    /// The program's name, and its package's.
    pub program: &'static str,
    /// Which versions of the package, as Cargo is asked for them.
    pub versions: &'static str,
}

impl CargoTool {
    /// Where the program is, below Cargo's target folder: one from elsewhere may be another of the
    /// same name. The first time it is compiled, which may take some minutes.
    ///
    /// # Errors
    /// It cannot be fetched or compiled.
    pub fn installed(&self, target: &Path) -> Result<PathBuf> {
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
