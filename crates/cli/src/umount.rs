use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use verimount_names::printable;

use crate::Outcome;

/// Unmount what verimount mount has mounted
#[derive(Args)]
pub(crate) struct Umount {
    /// The mount point
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Take it out of sight now, and end it when the last open file in it is closed
    #[arg(long)]
    lazy: bool,
}

impl Umount {
    pub(crate) fn run(self) -> Result<Outcome> {
        verimount_serve::unmount(&self.directory, self.lazy)
            .with_context(|| printable(&self.directory).to_string())?;
        Ok(Outcome::Good)
    }
}
