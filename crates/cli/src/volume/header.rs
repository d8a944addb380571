use std::{
    io::{self, Write, stdout},
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::Args;
use verimount::Error;
use verimount_host::{
    mounts::CheckEvent,
    printable,
    volume::{
        BadRange, DiskSize, RestoreOptions, SECTOR, Superblock, backup_header, rebuild_header,
        restore_header,
    },
};

use super::{
    args::{DeviceArgs, IntegrityArgs, when_closed},
    check::Report,
    shape_args::ShapeArgs,
};
use crate::{Outcome, options::of_size, progress::watch};

/// Copy the superblock of a volume, which may be in use, to a new file
///
/// Keep it on another disk: without its superblock a volume cannot be opened.
#[derive(Args)]
pub(crate) struct BackupHeader {
    /// The volume: a regular file or block device
    #[arg(value_name = "VOLUME")]
    volume: PathBuf,
    /// The file to create
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl BackupHeader {
    pub(crate) fn run(self) -> Result<Outcome> {
        backup_header(&self.volume, &self.file)?;
        Outcome::Good.reported(written(&self.file))
    }
}

/// What a superblock is compared with.
#[derive(Args)]
struct CompareArgs {
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    integrity: IntegrityArgs,
    /// Accept discarded blocks
    #[arg(long)]
    allow_discards: bool,
    /// The size of the disk, if it has grown or was not formatted as large as the devices allow
    #[arg(long, value_name = "SIZE", value_parser = of_size(DiskSize::new))]
    disk_size: Option<DiskSize>,
    /// Replace the journal if VOLUME has none, as after a crash in bitmap mode
    #[arg(long)]
    new_journal: bool,
}

impl CompareArgs {
    fn options(&self) -> Result<RestoreOptions> {
        Ok(RestoreOptions {
            integrity: self.integrity.integrity()?,
            allow_discards: self.allow_discards,
            disk_size: self.disk_size,
            new_journal: self.new_journal,
        })
    }

    /// Compares the superblock that `compare` returns, and reports what is bad.
    fn report(
        &self,
        mut compare: impl FnMut(&mut dyn FnMut(BadRange)) -> Result<Superblock, Error>,
    ) -> Result<()> {
        let mut report = Report::new(self.devices.shown());
        let superblock = when_closed(|| compare(&mut |bad| report.hear(CheckEvent::from(&bad))))?;
        report.hear(CheckEvent::Begun {
            size: superblock.provided_data_sectors * SECTOR,
            unchecked_from: None,
        });
        Ok(report.print(&mut stdout())?)
    }
}

/// Write a backup of the superblock to a volume, if it agrees with all tags and data
///
/// What changes in use, such as a mark that tags are to be recalculated, is not taken from FILE: blocks that do not match
/// their tags stay bad, and are listed.
#[derive(Args)]
pub(crate) struct RestoreHeader {
    #[command(flatten)]
    compare: CompareArgs,
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl RestoreHeader {
    pub(crate) fn run(self) -> Result<Outcome> {
        let Self { compare, file } = self;
        let (files, options, bars) = (compare.devices.files(), compare.options()?, watch()?);
        compare.report(|found| restore_header(&files, &file, &options, &bars, found))?;
        drop(bars);
        Outcome::Good.reported(writeln!(
            stdout(),
            "{}: restored the superblock from {}",
            compare.devices.shown(),
            printable(&file)
        ))
    }
}

/// Make the superblock of a volume again from the options that it was formatted with, if they agree with all tags and
/// data, and write it to a new file
///
/// VOLUME is not changed: read it with --header FILE, and restore it with restore-header. The salt of the tags is in the
/// superblock only: where that is lost, only volumes with --integrity-legacy-hmac can be rebuilt.
#[derive(Args)]
pub(crate) struct RebuildHeader {
    #[command(flatten)]
    compare: CompareArgs,
    /// The file to create
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    shape: ShapeArgs,
}

impl RebuildHeader {
    pub(crate) fn run(self) -> Result<Outcome> {
        let Self {
            compare,
            file,
            shape,
        } = self;
        let format = shape.options(&compare.integrity, compare.disk_size)?;
        let (files, options, bars) = (compare.devices.files(), compare.options()?, watch()?);
        compare.report(|found| rebuild_header(&files, &file, &format, &options, &bars, found))?;
        drop(bars);
        Outcome::Good.reported(written(&file))
    }
}

fn written(file: &Path) -> io::Result<()> {
    writeln!(stdout(), "wrote {}", printable(file))
}
