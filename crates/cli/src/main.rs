//! The `verimount` command.

mod advice;
mod background;
mod bridge;
mod build;
mod cat;
mod digest;
mod dm_verity;
mod extract;
mod generate;
mod info;
mod interrupt;
mod keys;
mod list;
mod log;
mod losses;
mod ls;
mod message;
mod mount;
mod mount_args;
mod opened;
mod options;
mod output_file;
mod owner_args;
mod progress;
mod seal;
mod served;
mod status;
mod target;
mod umount;
mod verify;
mod volume;

use std::{io, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::message::{say_failed, say_wrong_usage};

/// Verified storage from user space: images, files and volumes in which every byte is checked when
/// it is read.
#[derive(Parser)]
#[command(name = "verimount", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Build(build::Build),
    Seal(seal::Seal),
    Digest(digest::Digest),
    Keygen(keys::Keygen),
    Sign(keys::Sign),
    Info(info::Info),
    Verify(verify::Verify),
    Ls(ls::Ls),
    Cat(cat::Cat),
    Extract(extract::Extract),
    Mount(mount::Mount),
    Bridge(bridge::Bridge),
    #[command(subcommand)]
    Volume(volume::Volume),
    Umount(umount::Umount),
    Status(status::Status),
    List(list::List),
    Completions(generate::Completions),
    Man(generate::Man),
}

/// The outcome of a command that completed its work.
enum Outcome {
    /// Everything is good.
    Good,
    /// The data is bad, which has been reported.
    Bad,
}

impl Outcome {
    /// The outcome after writing the report. If the reader closed the pipe early, the exit code
    /// still tells the outcome.
    fn reported(self, written: io::Result<()>) -> Result<Self> {
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(self),
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| say_wrong_usage(error));
    match run(cli.command) {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::from(1),
        // The reader of our output has closed the pipe.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => match error.downcast() {
            Ok(error) => say_wrong_usage(error),
            Err(error) => {
                say_failed(&error);
                ExitCode::from(1)
            }
        },
    }
}

fn run(command: Command) -> Result<Outcome> {
    match command {
        Command::Build(command) => command.run(),
        Command::Seal(command) => command.run(),
        Command::Digest(command) => command.run(),
        Command::Keygen(command) => command.run(),
        Command::Sign(command) => command.run(),
        Command::Info(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Ls(command) => command.run(),
        Command::Cat(command) => command.run(),
        Command::Extract(command) => command.run(),
        Command::Mount(command) => command.run(),
        Command::Bridge(command) => command.run(),
        Command::Volume(command) => command.run(),
        Command::Umount(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::List(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
