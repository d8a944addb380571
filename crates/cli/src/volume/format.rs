use std::{
    io::{Write, stdout},
    num::NonZeroU64,
};

use anyhow::Result;
use clap::Args;
use verimount_host::volume::{
    BlockSize, DiskSize, FormatOptions, Interleave, Mode, NewVolume, Padding, SECTOR, Superblock,
    TagSize, format,
};

use super::args::{DeviceArgs, IntegrityArgs, say_risk, when_closed};
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
    /// Block size, 512, 1K, 2K or 4K; each block has one tag
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = of_size(BlockSize::new))]
    sector_size: BlockSize,
    /// Size of a tag in bytes, if not the full digest of the algorithm
    #[arg(long, value_name = "BYTES", value_parser = parse_tag_size)]
    tag_size: Option<TagSize>,
    /// Number of data sectors (of 512 bytes) between two runs of tags: a power of two, by default
    /// 32768
    #[arg(long, value_name = "N", value_parser = of_size(Interleave::new))]
    interleave_sectors: Option<Interleave>,
    /// Size of the journal; by default 1/128 of the data, at most 64M
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    journal_size: Option<u64>,
    /// Use the padding of kernels before 5.12
    #[arg(long)]
    integrity_legacy_padding: bool,
    /// Use neither a salt nor MACs over positions, as older kernels do
    #[arg(long)]
    integrity_legacy_hmac: bool,
    /// The mode in which the volume will be used; it is not stored
    #[arg(long, value_name = "MODE", default_value_t, value_parser = one_of(Mode::ALL, Mode::name))]
    mode: Mode,
}

impl Format {
    pub(crate) fn run(self) -> Result<Outcome> {
        let options = self.options()?;
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

    fn options(&self) -> Result<FormatOptions> {
        Ok(FormatOptions {
            integrity: self.integrity.integrity()?,
            block_size: self.sector_size,
            tag_size: self.tag_size,
            interleave: self.interleave_sectors,
            padding: if self.integrity_legacy_padding {
                Padding::Legacy
            } else {
                Padding::Fixed
            },
            journal_sectors: self.journal_size.map(|size| size / SECTOR),
            disk_size: self.disk_size,
            hmac_fix: !self.integrity_legacy_hmac,
            ..FormatOptions::default()
        })
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

fn parse_tag_size(text: &str) -> Result<TagSize, String> {
    let bytes = u16::try_from(parse_size(text)?).unwrap_or(u16::MAX);
    TagSize::new(bytes).map_err(|error| error.to_string())
}
