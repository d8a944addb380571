use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use verimount_names::printable;
use verimount_serve::{Closer, DaemonEnd, unmount};

use crate::{Outcome, status::read_status};

/// Unmount what verimount has mounted; of a volume, wait until it is closed
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
        let closing = self.closing();
        unmount(&self.directory, self.lazy)
            .with_context(|| printable(&self.directory).to_string())?;
        if let Some(closing) = closing {
            closing.wait();
        }
        Ok(Outcome::Good)
    }

    /// The end of the process that closes a volume after it was unmounted.
    fn closing(&self) -> Option<DaemonEnd> {
        if self.lazy {
            return None;
        }
        read_status::<Closer>(&self.directory).ok()?.daemon?.end()
    }
}
