//! Programs that Debian does not package, installed by Cargo.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{command, workspace::cargo};

/// A program and the versions of its package that are known to work.
pub struct CargoTool {
    /// The program's name, and its package's.
    pub program: &'static str,
    /// The versions of the package, in Cargo's notation.
    pub versions: &'static str,
}

impl CargoTool {
    /// The path of the program below Cargo's target folder (elsewhere there may be another program with
    /// the same name). It is compiled the first time, which may take some minutes.
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
            // Not optimised: that would take longer than all its runs.
            install
                .args(["--locked", "--debug", "--root"])
                .arg(&tools)
                .arg(format!("{}@{}", self.program, self.versions));
            command::run(&mut install)?;
        }
        Ok(program)
    }
}
