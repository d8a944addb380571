use std::{
    fs,
    io::{Write, stdout},
    num::NonZeroU64,
    path::Path,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use verimount::OutputFile;
use verimount_integrity::{
    BlockSize, DiskSize, FormatOptions, Interleave, Mode, Padding, SECTOR, Superblock, TagSize,
    format,
};
use verimount_names::printable;
use verimount_source::ReadAt;

use crate::{
    Outcome,
    interrupt::Interrupt,
    message::say,
    options::{one_of, parse_size},
    progress::Bar,
};

use super::args::{Access, Device, DeviceArgs, IntegrityArgs, devices_of, parse_disk_size};

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
    #[arg(long, value_name = "SIZE", value_parser = parse_disk_size, conflicts_with = "size")]
    disk_size: Option<DiskSize>,
    /// Format the devices even if they are not empty
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    integrity: IntegrityArgs,
    /// Block size, 512, 1K, 2K or 4K; each block has one tag
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = parse_block_size)]
    sector_size: BlockSize,
    /// Size of a tag in bytes, if not the full digest of the algorithm
    #[arg(long, value_name = "BYTES", value_parser = parse_tag_size)]
    tag_size: Option<TagSize>,
    /// Number of data sectors (of 512 bytes) between two runs of tags: a power of two, by default
    /// 32768
    #[arg(long, value_name = "N", value_parser = parse_interleave)]
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
    #[arg(long, value_name = "MODE", default_value_t, value_parser = one_of::<Mode>(Mode::ALL.map(Mode::name)))]
    mode: Mode,
}

/// How much of a device to check for contents: more than any file system leaves unused at its
/// beginning.
const LOOKED_AT: u64 = 1 << 20;

impl Format {
    pub(crate) fn run(self) -> Result<Outcome> {
        let interrupt = Interrupt::watch()?;
        // Check the arguments before creating a file.
        let options = self.options()?;
        let file = self
            .new_file_size(&options)?
            .map(|size| new_file(&self.devices.volume, size))
            .transpose()?;
        let devices = match &file {
            Some(file) => self
                .devices
                .open_with(&file.path_before_commit(), Access::Write)?,
            None => self.devices.open()?,
        };
        if !self.force {
            for (device, path) in devices.iter().zip(self.devices.paths()) {
                refuse_to_overwrite(device, path)?;
            }
        }
        let options = FormatOptions {
            is_zero: devices.iter().all(|device| device.inner().is_known_zero()),
            ..options
        };
        let superblock = format_devices(&devices, &options, &interrupt);
        let superblock = superblock.with_context(|| self.devices.shown())?;
        if let Some(file) = file {
            file.commit().with_context(|| self.devices.shown())?;
        }
        self.report(&superblock, &options)
    }

    /// The size of the file to create, if there is to be a new one.
    fn new_file_size(&self, options: &FormatOptions) -> Result<Option<NonZeroU64>> {
        let Some(disk) = self.disk_size else {
            return Ok(self.size);
        };
        if fs::exists(&self.devices.volume)? {
            return Ok(None);
        }
        if self.devices.has_data_device() {
            bail!(
                "{} does not exist: with --data-device, --size says how large to make it",
                self.devices.shown()
            );
        }
        let needed = options.storage_needed(disk);
        Ok(NonZeroU64::new(
            needed.with_context(|| self.devices.shown())?,
        ))
    }

    fn options(&self) -> Result<FormatOptions> {
        Ok(FormatOptions {
            integrity: self.integrity.integrity()?,
            block_size: self.sector_size,
            tag_size: self.tag_size,
            interleave: self.interleave_sectors,
            padding: match self.integrity_legacy_padding {
                true => Padding::Legacy,
                false => Padding::Fixed,
            },
            journal_sectors: self.journal_size.map(|size| size / SECTOR),
            disk_size: self.disk_size,
            hmac_fix: !self.integrity_legacy_hmac,
            ..FormatOptions::default()
        })
    }

    fn report(&self, superblock: &Superblock, options: &FormatOptions) -> Result<Outcome> {
        let algorithm = options.integrity.algorithm;
        let is_usual = algorithm == Default::default()
            && options.integrity.journal_mac.is_none()
            && self.mode == Mode::default();
        if !is_usual {
            say(format_args!(
                "note: the volume does not store these options, give them each time: --integrity {algorithm}{}{} --mode {}",
                if algorithm.is_keyed() {
                    " and its key"
                } else {
                    ""
                },
                if superblock.has_journal_mac() {
                    ", --journal-integrity and its key"
                } else {
                    ""
                },
                self.mode
            ));
        }
        Outcome::Good.reported(writeln!(
            stdout(),
            "{}: {} bytes in sectors of {}, each with a {algorithm} tag of {}",
            self.devices.shown(),
            superblock.provided_data_sectors() * SECTOR,
            superblock.block_size().bytes(),
            superblock.tag_size().get(),
        ))
    }
}

fn new_file(path: &Path, size: NonZeroU64) -> Result<OutputFile> {
    let new = || {
        let file = OutputFile::new(path, 0o666)?;
        file.file().set_len(size.get())?;
        Ok::<_, std::io::Error>(file)
    };
    new().with_context(|| printable(path).to_string())
}

fn refuse_to_overwrite(device: &Device, path: &Path) -> Result<()> {
    if device.inner().is_known_zero() {
        return Ok(());
    }
    let mut beginning = vec![0; device.size().min(LOOKED_AT) as usize];
    let read = device.read_exact_at(&mut beginning, 0);
    read.with_context(|| printable(path).to_string())?;
    if beginning.iter().any(|&byte| byte != 0) {
        bail!(
            "{} is not empty; use --force to overwrite it",
            printable(path)
        );
    }
    Ok(())
}

fn format_devices(
    devices: &[Device],
    options: &FormatOptions,
    interrupt: &Interrupt,
) -> Result<Superblock> {
    let largest = devices.last().map_or(0, ReadAt::size);
    let disk = options.disk_size.map_or(largest, DiskSize::bytes);
    let bar = Bar::new(disk, "formatting");
    let made = format(devices_of(devices), options, &mut |bytes| {
        bar.add(bytes);
        interrupt.go_on()
    });
    Ok(made?)
}

fn parse_file_size(text: &str) -> Result<NonZeroU64, String> {
    NonZeroU64::new(parse_size(text)?).ok_or_else(|| "a volume cannot be empty".to_owned())
}

fn parse_block_size(text: &str) -> Result<BlockSize, String> {
    BlockSize::new(parse_size(text)?).map_err(|error| error.to_string())
}

fn parse_tag_size(text: &str) -> Result<TagSize, String> {
    let bytes = u16::try_from(parse_size(text)?).unwrap_or(u16::MAX);
    TagSize::new(bytes).map_err(|error| error.to_string())
}

fn parse_interleave(text: &str) -> Result<Interleave, String> {
    Interleave::new(parse_size(text)?).map_err(|error| error.to_string())
}
