use std::io::{Write, stdout};

use anyhow::Result;
use clap::Args;
use verimount_host::volume::{DiskSize, GrowBy, GrowOptions, grow};

use super::args::{DeviceArgs, IntegrityArgs, when_closed};
use crate::{
    Outcome,
    options::{of_size, parse_size},
    progress::watch,
};

/// Grow a volume to the size of its device; the new blocks are zero
///
/// If interrupted, the volume keeps its old size.
#[derive(Args)]
pub(crate) struct Grow {
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    integrity: IntegrityArgs,
    /// First extend VOLUME, a regular file, sparsely to this size
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "data_device")]
    size: Option<u64>,
    /// Grow the disk to exactly this size, and not as far as the devices allow. VOLUME, if it is a
    /// regular file, is first extended as far as this needs
    #[arg(long, value_name = "SIZE", value_parser = of_size(DiskSize::new), conflicts_with = "size")]
    disk_size: Option<DiskSize>,
}

impl Grow {
    pub(crate) fn run(self) -> Result<Outcome> {
        let integrity = self.integrity.integrity()?;
        let by = match (self.size, self.disk_size) {
            (Some(size), _) => GrowBy::File(size),
            (None, Some(disk)) => GrowBy::Disk(disk),
            (None, None) => GrowBy::Devices,
        };
        let files = self.devices.files();
        let options = GrowOptions {
            integrity,
            by,
            watcher: watch()?,
        };
        let grown = when_closed(|| grow(&files, &options))?;
        drop(options);
        let (volume, old, new) = (self.devices.shown(), grown.old, grown.new);
        Outcome::Good.reported(if old < new {
            writeln!(stdout(), "{volume}: {new} bytes, {} more", new - old)
        } else if self.disk_size.is_some() {
            writeln!(stdout(), "{volume}: {old} bytes, as before")
        } else {
            writeln!(
                stdout(),
                "{volume}: {old} bytes; the device has no room for more"
            )
        })
    }
}
