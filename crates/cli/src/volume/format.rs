use std::{
    io::{Write, stdout},
    num::NonZeroU64,
};

use anyhow::Result;
use clap::Args;
use verimount_host::volume::{
    DiskSize, FormatOptions, Mode, NewVolume, SECTOR, Superblock, format,
};

use super::{
    args::{DeviceArgs, IntegrityArgs, say_risk, when_closed},
    shape_args::ShapeArgs,
};
use crate::{
    Outcome,
    message::{say, wrong_usage},
    options::{of_size, one_of, parse_size},
    progress::watch,
};

/// Format a file or block device as a volume whose blocks are all zero
#[derive(Args)]
pub(crate) struct Format {
    #[command(flatten)]
    devices: DeviceArgs,
    /// Create VOLUME as a new sparse file of this size
    #[arg(long, value_name = "SIZE", value_parser = parse_file_size)]
    size: Option<NonZeroU64>,
    /// Make the disk exactly this large, and not as large as the devices allow. If VOLUME does not
    /// exist, it is created as a new sparse file of the size that this needs
    #[arg(long, value_name = "SIZE", value_parser = of_size(DiskSize::new), conflicts_with = "size")]
    disk_size: Option<DiskSize>,
    /// Reserve the space of all of the new file now, so that no write fails later for lack of it
    #[arg(long)]
    preallocate: bool,
    /// Format the devices even if they are not empty
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    integrity: IntegrityArgs,
    #[command(flatten)]
    shape: ShapeArgs,
    /// The mode in which the volume will be used; it is not stored
    #[arg(long, value_name = "MODE", default_value_t, value_parser = one_of(Mode::ALL, Mode::name))]
    mode: Mode,
}

impl Format {
    pub(crate) fn run(self) -> Result<Outcome> {
        let options = self.shape.options(&self.integrity, self.disk_size)?;
        self.check_mode(&options)?;
        let new = NewVolume {
            format: options.clone(),
            file_size: self.size,
            preallocate: self.preallocate,
            replace: self.force,
            watcher: watch()?,
        };
        let files = self.devices.files();
        let superblock = when_closed(|| format(&files, &new))?;
        drop(new);
        self.report(&superblock, &options)
    }

    /// Refuses to format what could not be used in the mode that was given.
    fn check_mode(&self, options: &FormatOptions) -> Result<()> {
        options.check_mode(self.mode).map_err(|_| {
            wrong_usage(format_args!(
                "a volume with these options cannot be used with --mode {}, which calculates tags again after a \
                 crash: --integrity {} needs --journal-integrity and --journal-integrity-key-file, and neither \
                 goes with --integrity-legacy-hmac",
                self.mode, options.integrity.algorithm
            ))
        })
    }

    fn report(&self, superblock: &Superblock, options: &FormatOptions) -> Result<Outcome> {
        let algorithm = options.integrity.algorithm;
        let is_usual = algorithm == Default::default()
            && options.integrity.journal_mac.is_none()
            && self.mode == Mode::default();
        if !is_usual {
            say(format_args!(
                "note: the volume does not store these options, give them each time: --integrity {algorithm}{}{}, --mode {}",
                if algorithm.is_keyed() {
                    " and its key"
                } else {
                    ""
                },
                if superblock.shape.journal_mac {
                    ", --journal-integrity and its key"
                } else {
                    ""
                },
                self.mode
            ));
        }
        say_risk(self.mode);
        Outcome::Good.reported(writeln!(
            stdout(),
            "{}: {} bytes in sectors of {}, each with a {algorithm} tag of {}",
            self.devices.shown(),
            superblock.provided_data_sectors * SECTOR,
            superblock.shape.block_size.bytes(),
            superblock.shape.tag_size.get(),
        ))
    }
}

fn parse_file_size(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(parse_size(text)?).ok_or_else(|| "a volume cannot be empty".to_owned())
}
