//! `fsx`: random reads, writes, mappings and changes of length of one file, each compared with what
//! it should give.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use verimount_support::cargo_tool::CargoTool;

use crate::output;

const TOOL: CargoTool = CargoTool {
    program: "fsx",
    versions: "^0.3",
};

/// The seed of the operations, the same in each run.
const SEED: u32 = 2020;

/// The frequencies of operations. Waiting for the disk finds few errors and takes most of the time, so it
/// is rare, and written mappings are not synchronised.
const SETTINGS: &str = "nomsyncafterwrite = true
[weights]
read = 10
write = 10
mapread = 10
mapwrite = 10
sendfile = 5
copy_file_range = 5
truncate = 5
close_open = 2
invalidate = 2
posix_fallocate = 2
punch_hole = 2
posix_fadvise = 2
fsync = 0.1
fdatasync = 0.1
";

pub(crate) struct Fsx {
    program: PathBuf,
    settings: PathBuf,
}

impl Fsx {
    /// Keeps its files in `folder`.
    pub(crate) fn new(target: &Path, folder: &Path) -> Result<Self> {
        let settings = folder.join("fsx.toml");
        fs::write(&settings, SETTINGS)?;
        Ok(Self {
            program: TOOL.installed(target)?,
            settings,
        })
    }

    /// Does this many operations in `directory`; returns a line of results.
    pub(crate) fn run(&self, directory: &Path, operations: u32) -> Result<String> {
        let mut fsx = Command::new(&self.program);
        fsx.arg("-f")
            .arg(&self.settings)
            .args(["-N", &operations.to_string()])
            .args(["-S", &SEED.to_string()])
            .arg("-P")
            .arg(self.settings.parent().context("a file is in a folder")?)
            .arg(directory.join("fsx"));
        output(&mut fsx)?;
        Ok(format!("fsx: {operations} operations with seed {SEED}"))
    }
}
