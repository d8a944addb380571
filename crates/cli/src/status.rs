mod prometheus;
mod text;

use std::{
    io::{self, Write, stdout},
    path::PathBuf,
};

use anyhow::Result;
use clap::Args;
use verimount_names::printable;
use verimount_serve::Status as Told;

use crate::{Outcome, target::Target};

/// Show the status of a mount or an export: what it is, and statistics of requests, verification
/// and mismatches
///
/// The exit code is 0 if all data that was read matched; 1 if any did not, if a volume has become
/// read-only because its storage failed, or if there is no status; 2 for wrong usage.
#[derive(Args)]
pub(crate) struct Status {
    /// The mount point, or the socket of an export
    #[arg(value_name = "DIR|SOCKET")]
    target: PathBuf,
    /// Print it as JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// Print it as metrics in Prometheus' text format
    #[arg(long)]
    prometheus: bool,
}

impl Status {
    pub(crate) fn run(self) -> Result<Outcome> {
        let status = Target::at(&self.target).status()?;
        let outcome = match status.is_bad() {
            true => Outcome::Bad,
            false => Outcome::Good,
        };
        outcome.reported(self.write(&status))
    }

    fn write(&self, status: &Told) -> io::Result<()> {
        let mut out = stdout().lock();
        if self.json {
            return writeln!(out, "{}", serde_json::to_string_pretty(status)?);
        }
        match self.prometheus {
            true => prometheus::print(&mut out, status, &printable(&self.target).to_string()),
            false => text::print(&mut out, status),
        }
    }
}
