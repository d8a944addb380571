//! What the command can do with content on other machines.

mod access;
mod cache;
mod cache_directory;
mod prefetch_args;
mod pull;
mod push;
mod registry_args;

use std::path::PathBuf;

use self::cache_directory::usual_directory;
pub(crate) use self::{
    access::{AccessArgs, SessionArgs},
    prefetch_args::PrefetchArgs,
    registry_args::RegistryArgs,
};
use crate::commands::commands;

// What is documented here would be in the help.
commands! {
    pub(crate) enum CopyCommand {
        Push(push::Push),
        Pull(Box<pull::Pull>),
    }
}

commands! {
    pub(crate) enum KeepCommand {
        #[command(subcommand)]
        Cache(cache::CacheCommand),
    }
}

/// Where content of URLs is kept if nothing else is said.
pub(crate) fn usual_cache() -> Option<PathBuf> {
    usual_directory().ok()
}
