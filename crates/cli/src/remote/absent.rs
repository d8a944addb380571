//! In place of `remote`, without the feature: no options, and no commands.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use verimount::{Content, OpenOptions};
use verimount_host::sandbox::Sandbox;

use crate::Outcome;

/// No options.
#[derive(Args)]
#[group(skip)]
pub(crate) struct NoArgs {}

pub(crate) type AccessArgs = NoArgs;
pub(crate) type PrefetchArgs = NoArgs;
pub(crate) type RegistryArgs = NoArgs;
pub(crate) type SessionArgs = NoArgs;

// What is documented here would be in the help.
#[derive(Subcommand)]
pub(crate) enum NoCommand {}

pub(crate) type CopyCommand = NoCommand;
pub(crate) type KeepCommand = NoCommand;

impl NoArgs {
    pub(crate) fn apply(&self, options: OpenOptions) -> OpenOptions {
        options
    }

    pub(crate) fn apply_if(&self, _: bool, options: OpenOptions) -> Result<OpenOptions> {
        Ok(options)
    }

    pub(crate) fn prepare_if(&self, _: bool, _: &mut Sandbox) -> Result<()> {
        Ok(())
    }

    pub(crate) fn is_all(&self) -> bool {
        false
    }

    pub(crate) fn prefetch(&self, _: &Content) -> Result<()> {
        Ok(())
    }
}

/// Nothing is kept.
pub(crate) fn usual_cache() -> Option<PathBuf> {
    None
}

impl NoCommand {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self {}
    }
}
