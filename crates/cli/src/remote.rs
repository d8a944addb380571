//! What the command can do with content on other machines. Without the feature, `remote/absent.rs` is in its place.

mod access;
mod cache;
mod cache_directory;
mod prefetch_args;
mod pull;
mod push;
mod registry_args;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

use self::cache_directory::usual_directory;
pub(crate) use self::{
    access::{AccessArgs, SessionArgs},
    prefetch_args::PrefetchArgs,
    registry_args::RegistryArgs,
};
use crate::Outcome;

// What is documented here would be in the help.
#[derive(Subcommand)]
pub(crate) enum CopyCommand {
    Push(push::Push),
    Pull(Box<pull::Pull>),
}

#[derive(Subcommand)]
pub(crate) enum KeepCommand {
    #[command(subcommand)]
    Cache(cache::CacheCommand),
}

/// Where content of URLs is kept if nothing else is said.
pub(crate) fn usual_cache() -> Option<PathBuf> {
    usual_directory().ok()
}

impl CopyCommand {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self {
            Self::Push(command) => command.run(),
            Self::Pull(command) => command.run(),
        }
    }
}

impl KeepCommand {
    pub(crate) fn run(self) -> Result<Outcome> {
        let Self::Cache(command) = self;
        command.run()
    }
}
