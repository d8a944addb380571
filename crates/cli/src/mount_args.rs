use std::num::NonZeroUsize;

use clap::Args;
use verimount_serve::MountOptions;

use crate::{
    background::BackgroundArgs,
    options::{Auto, auto_threads, parse_threads},
};

/// How a mount is served.
#[derive(Args)]
pub(crate) struct MountArgs {
    /// Let other users use the mount, each with their own rights
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Threads that answer the kernel: auto or a number
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_threads)]
    threads: Auto<NonZeroUsize>,
    /// Keep idle processors from sleeping while requests come, for faster answers; takes root
    #[arg(long)]
    awake: bool,
    #[command(flatten)]
    pub(crate) background: BackgroundArgs,
}

impl MountArgs {
    /// The options for a mount of this source.
    pub(crate) fn options(&self, source_name: String, read_only: bool) -> MountOptions {
        MountOptions {
            source_name,
            read_only,
            allow_other: self.allow_other,
            threads: self.threads.0.unwrap_or_else(auto_threads),
            awake: self.awake,
        }
    }
}
