use std::{
    fs::File,
    io::{Write, stdout},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use verimount_integrity::{Mode, OpenOptions, SECTOR, Superblock, Volume, grow};
use verimount_source::ReadAt;

use crate::{Outcome, interrupt::Interrupt, options::parse_size, progress::bytes_bar};

use super::args::{Device, DeviceArgs, IntegrityArgs, devices_of};

/// Make a volume as large as its device, which has become larger; the new blocks are zero
///
/// Until that is done, the volume has its old size, also if it is interrupted.
#[derive(Args)]
pub(crate) struct Grow {
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    integrity: IntegrityArgs,
    /// First make VOLUME, a regular file, this long, which takes storage only for what is written
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "data_device")]
    size: Option<u64>,
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
        if let Some(size) = self.size {
            // What cannot be opened is left as it is.
            let opened = Volume::open(devices_of(&devices), &options);
            let closed = opened.and_then(Volume::close);
            closed.with_context(|| self.devices.shown())?;
            self.lengthen(&devices[0], size)?;
            // Whoever uses a device knows its length from the start.
            drop(devices);
            devices = self.devices.open()?;
        }
        let after = self.grow(&devices, &options, &before, &interrupt);
        let after = after.with_context(|| self.devices.shown())?;
        let [old, new] = [before, after].map(|it| it.provided_data_sectors() * SECTOR);
        let volume = self.devices.shown();
        Outcome::Good.reported(match old < new {
            true => writeln!(stdout(), "{volume}: {new} bytes, {} more", new - old),
            false => writeln!(
                stdout(),
                "{volume}: {old} bytes, for more of which there is no room"
            ),
        })
    }

    fn lengthen(&self, device: &Device, size: u64) -> Result<()> {
        let volume = self.devices.shown();
        let file = File::options().write(true).open(&self.devices.volume);
        let file = file.with_context(|| volume.clone())?;
        ensure!(
            file.metadata()?.is_file(),
            "{volume} is no regular file: --size cannot make it longer"
        );
        let len = device.size();
        if size < len {
            bail!("{volume} has {len} bytes already, and volumes do not shrink");
        }
        // The volume must not be longer than its file, whatever a crash makes of the two.
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
        let data = devices.last().map_or(0, ReadAt::size);
        let bar = bytes_bar(data.saturating_sub(old), "growing");
        let grown = grow(devices_of(devices), options, &mut |bytes| {
            bar.inc(bytes);
            interrupt.go_on()
        });
        bar.finish_and_clear();
        Ok(grown?)
    }
}
