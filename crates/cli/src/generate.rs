mod sections;

use std::{
    fs,
    io::{self, Write, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use verimount_host::printable;

use self::sections::write_sections;
use crate::{Cli, Outcome};

/// Print shell completions
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Outcome> {
        // Generate into memory first: the generator panics if the reader closes the pipe.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "verimount", &mut script);
        stdout().write_all(&script)?;
        Ok(Outcome::Good)
    }
}

/// Write the manual pages into a directory
#[derive(Args)]
pub(crate) struct Man {
    /// The directory, created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> Result<Outcome> {
        // Each page has the exit codes in a section of its own.
        let mut command = Cli::command()
            .disable_help_subcommand(true)
            .after_help(None::<&str>);
        command.build();
        fs::create_dir_all(&self.directory)
            .and_then(|()| write_pages(&command, &self.directory))
            .with_context(|| printable(&self.directory).to_string())?;
        Ok(Outcome::Good)
    }
}

/// Writes the page of a command, and those of its subcommands.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands() {
        write_pages(subcommand, directory)?;
    }
    let page = clap_mangen::Man::new(command.clone())
        .source(concat!("verimount ", env!("CARGO_PKG_VERSION")))
        .manual("Verimount");
    let mut text = Vec::new();
    page.render(&mut text)?;
    write_sections(&mut text, command)?;
    fs::write(directory.join(page.get_filename()), text)
}
