use std::{
    fs,
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use verimount_names::printable;

use crate::{Cli, Outcome};

/// Print shell completions
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Outcome> {
        // Into memory first: the generator does not survive a reader that has had enough.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "verimount", &mut script);
        stdout().write_all(&script)?;
        Ok(Outcome::Good)
    }
}

/// Write the manual pages into a directory
#[derive(Args)]
pub(crate) struct Man {
    /// The directory, made if it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> Result<Outcome> {
        fs::create_dir_all(&self.directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), &self.directory))
            .with_context(|| printable(&self.directory).to_string())?;
        Ok(Outcome::Good)
    }
}
