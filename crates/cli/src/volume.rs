mod args;
mod check;
mod exported;
mod format;
mod grow;
mod holder;
mod info;
mod mount;
mod mounted;
mod opened;
mod serve;
mod socket;

use anyhow::Result;
use clap::Subcommand;

use crate::Outcome;

pub(crate) use info::VolumeInfo;

/// Create and use volumes: writable disks whose blocks are all checked, in the format of the
/// kernel's dm-integrity
///
/// Options have the same names as in integritysetup. A volume does not store its algorithm, key or
/// mode: give them each time.
#[derive(Subcommand)]
pub(crate) enum Volume {
    Format(format::Format),
    Info(info::Info),
    Check(check::Check),
    Grow(grow::Grow),
    Mount(mount::Mount),
    Serve(serve::Serve),
}

impl Volume {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self {
            Self::Format(command) => command.run(),
            Self::Info(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Grow(command) => command.run(),
            Self::Mount(command) => command.run(),
            Self::Serve(command) => command.run(),
        }
    }
}
