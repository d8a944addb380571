use anyhow::Result;
use clap::Args;
use verimount::{Content, Prefetch};

use crate::{message::wrong_usage, options::one_of};

/// The option for what is fetched ahead.
#[derive(Args)]
#[group(skip)]
pub(crate) struct PrefetchArgs {
    /// For URLs: what is fetched before it is read: nothing, most of the Merkle tree, or all (into the cache). With
    /// --resident, all also loads its files at once, from anywhere
    #[arg(long, value_name = "WHAT", default_value = "metadata", value_parser = one_of(Prefetch::ALL, Prefetch::name))]
    prefetch: Prefetch,
}

impl PrefetchArgs {
    /// Whether everything is fetched.
    pub(crate) fn is_all(&self) -> bool {
        self.prefetch == Prefetch::All
    }

    /// Begins to fetch it.
    pub(crate) fn prefetch(&self, content: &Content) -> Result<()> {
        content.prefetch(self.prefetch).map_err(|error| {
            wrong_usage(format_args!(
                "--prefetch all: {error}: give --cache DIR, and no --no-cache"
            ))
        })
    }
}
