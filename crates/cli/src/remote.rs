//! What the command can do with content on other machines.

mod access;
mod cache;
mod cache_directory;
mod pull;
mod push;
mod registry_args;

pub(crate) use self::{
    access::{AccessArgs, SessionArgs},
    cache::CacheCommand,
    cache_directory::usual_directory,
    pull::Pull,
    push::Push,
    registry_args::RegistryArgs,
};
