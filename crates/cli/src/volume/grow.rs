use std::{
    fs::File,
    io::{Write, stdout},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use verimount_integrity::{DiskSize, Mode, OpenOptions, SECTOR, Superblock, Volume, grow};
use verimount_source::ReadAt;

use crate::{Outcome, interrupt::Interrupt, options::parse_size, progress::Bar};

use super::args::{Device, DeviceArgs, IntegrityArgs, devices_of, parse_disk_size};

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
    #[arg(long, value_name = "SIZE", value_parser = parse_disk_size, conflicts_with = "size")]
    disk_size: Option<DiskSize>,
}

impl Grow {
    pub(crate) fn run(self) -> Result<Outcome> {
        let interrupt = Interrupt::watch()?;
        let options = OpenOptions {
            integrity: self.integrity.integrity()?,
            mode: Mode::Direct,
            ..OpenOptions::default()
        };
        let mut devices = self.devices.open()?;
        let before = Superblock::read(&devices[0], 0).with_context(|| self.devices.shown())?;
        if let Some(size) = self.new_file_size(&devices[0], &before)? {
            // Do not change a file that cannot be opened as a volume.
            let opened = Volume::open(devices_of(&devices), &options);
            let closed = opened.and_then(Volume::close);
            closed.with_context(|| self.devices.shown())?;
            self.lengthen(&devices[0], size)?;
            // An open device has a fixed length, so reopen it.
            drop(devices);
            devices = self.devices.open()?;
        }
        let after = self.grow(&devices, &options, &before, &interrupt);
        let after = after.with_context(|| self.devices.shown())?;
        let [old, new] = [before, after].map(|it| it.provided_data_sectors() * SECTOR);
        let volume = self.devices.shown();
        Outcome::Good.reported(match old < new {
            true => writeln!(stdout(), "{volume}: {new} bytes, {} more", new - old),
            false if self.disk_size.is_some() => {
                writeln!(stdout(), "{volume}: {old} bytes, as before")
            }
            false => writeln!(
                stdout(),
                "{volume}: {old} bytes; the device has no room for more"
            ),
        })
    }

    /// The size to which the file is to be extended, if it is.
    fn new_file_size(&self, device: &Device, superblock: &Superblock) -> Result<Option<u64>> {
        let Some(disk) = self.disk_size else {
            return Ok(self.size);
        };
        if self.devices.has_data_device() || !self.devices.volume.is_file() {
            return Ok(None);
        }
        let needed = superblock.storage_needed(disk, 0);
        let needed = needed.with_context(|| self.devices.shown())?;
        Ok((needed > device.size()).then_some(needed))
    }

    fn lengthen(&self, device: &Device, size: u64) -> Result<()> {
        let volume = self.devices.shown();
        let file = File::options().write(true).open(&self.devices.volume);
        let file = file.with_context(|| volume.clone())?;
        ensure!(
            file.metadata()?.is_file(),
            "{volume} is not a regular file: --size cannot extend it"
        );
        let len = device.size();
        if size < len {
            bail!("{volume} already has {len} bytes, and volumes cannot shrink");
        }
        // Sync, so that a crash cannot leave the volume longer than its file.
        file.set_len(size)
            .and_then(|()| file.sync_all())
            .with_context(|| volume)
    }

    fn grow(
        &self,
        devices: &[Device],
        options: &OpenOptions,
        before: &Superblock,
        interrupt: &Interrupt,
    ) -> Result<Superblock> {
        let old = before.provided_data_sectors() * SECTOR;
        let largest = devices.last().map_or(0, ReadAt::size);
        let new = self.disk_size.map_or(largest, DiskSize::bytes);
        let bar = Bar::new(new.saturating_sub(old), "growing");
        let grown = grow(devices_of(devices), options, self.disk_size, &mut |bytes| {
            bar.add(bytes);
            interrupt.go_on()
        });
        Ok(grown?)
    }
}
