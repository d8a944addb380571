//! The `verimount` command.

mod advice;
mod audit_args;
mod background;
mod bridge;
mod build;
mod cat;
mod commands;
mod content_args;
mod device_args;
mod diff;
mod digest;
mod dm_verity;
mod doctor;
mod explain_args;
mod extract;
mod generate;
mod info;
mod interrupt;
mod json;
mod keys;
mod list;
mod log;
mod ls;
mod message;
mod mirror_args;
mod model_args;
mod mount;
mod mount_args;
mod mount_helper;
mod option_list;
mod options;
mod outcome;
mod owner_args;
mod power_args;
mod progress;
mod remote;
mod resident_args;
mod seal;
mod service_manager;
mod shown_url;
mod status;
mod target;
mod template;
mod umount;
mod unknown_option;
mod verify;
mod volume;

use std::{env, ffi::OsString, io, process::ExitCode};

use anyhow::Result;
use clap::Parser;

use crate::{
    commands::commands,
    message::{say_failed, say_wrong_usage},
    mount_helper::{Caller, HelperCall},
    option_list::expanded,
    outcome::{Outcome, exit_codes_help},
};

/// Verified storage from user space: images, files and volumes in which every byte is checked when
/// it is read.
#[derive(Parser)]
#[command(name = "verimount", version, max_term_width = 100, after_help = exit_codes_help())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

commands! {
    enum Command {
        Build(build::Build),
        Seal(seal::Seal),
        Digest(digest::Digest),
        Keygen(keys::Keygen),
        Sign(keys::Sign),
        Info(info::Info),
        Verify(verify::Verify),
        Diff(diff::Diff),
        Ls(ls::Ls),
        Cat(cat::Cat),
        Extract(extract::Extract),
        Push(remote::Push),
        Pull(Box<remote::Pull>),
        Mount(mount::Mount),
        Bridge(bridge::Bridge),
        #[command(subcommand)]
        Volume(volume::Volume),
        #[command(subcommand)]
        Cache(remote::CacheCommand),
        #[command(alias = "unmount")]
        Umount(umount::Umount),
        Status(status::Status),
        List(list::List),
        Doctor(doctor::Doctor),
        Completions(generate::Completions),
        Man(generate::Man),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().collect();
    let helper = Caller::of(&arguments);
    let ended = match parse(helper, arguments) {
        Ok(Some(command)) => command.run(),
        Ok(None) => Ok(Outcome::Good),
        Err(error) => Err(error.into()),
    };
    ended.unwrap_or_else(told).code(helper)
}

/// Tells why a command could not be completed, unless nobody listens any more.
fn told(error: anyhow::Error) -> Outcome {
    if is_broken_pipe(&error) {
        return Outcome::Good;
    }
    let outcome = Outcome::of(&error);
    match error.downcast() {
        Ok(usage) => say_wrong_usage(usage),
        Err(error) => say_failed(&error),
    }
    outcome
}

/// The command to run, of mount(8) if `helper` is given; `None` if there is nothing to do.
fn parse(helper: Option<Caller>, arguments: Vec<OsString>) -> Result<Option<Command>, clap::Error> {
    let cli = match helper {
        None => Cli::try_parse_from(expanded(arguments)?)?,
        Some(caller) => {
            let call = HelperCall::try_parse_from(arguments)?;
            let cli = call.parse(caller)?;
            if call.fake || call.is_mounted() {
                return Ok(None);
            }
            cli
        }
    };
    Ok(Some(cli.command))
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
