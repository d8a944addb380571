use std::{
    fmt::Display,
    io::{self, Write, stdout},
    ops::Range,
};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use verimount_integrity::{BadRange, BadReason, Mode, OpenOptions, SECTOR, Superblock, Volume};

use crate::{
    Outcome, interrupt::Interrupt, message::say, options::all_processors, progress::bytes_bar,
};

use super::{
    args::{Device, DeviceArgs, IntegrityArgs, devices_of},
    mounted::MountedVolume,
};

/// Read all blocks of a volume and list every bad range
///
/// A volume that is mounted is read through the mount, by whose mode and options it is then checked.
/// Else nothing is written, and the right to read is enough: what a journal holds is read from memory. But tags that
/// have to be recalculated after a crash are recalculated first, if the volume can be written.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    integrity: IntegrityArgs,
    /// Accept discarded blocks
    #[arg(long)]
    allow_discards: bool,
    /// First accept the data of the sectors START..END, good or bad, by setting their tags to
    /// match; may be repeated
    #[arg(long, value_name = "RANGE", value_parser = parse_range)]
    accept: Vec<Range<u64>>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The maximum number of bad ranges to list.
const MAX_LISTED: usize = 10_000;

#[derive(Serialize)]
struct Report {
    /// As [`DeviceArgs::shown`] shows it, as not every path is text.
    volume: String,
    size: u64,
    ok: bool,
    bad_bytes: u64,
    bad_ranges: u64,
    /// The number of bad ranges that begin with a block whose tag marks it as discarded.
    discarded_ranges: u64,
    /// The first sector whose tag has to be recalculated, which takes writing. From there on, blocks that were
    /// being written in the crash are not checked.
    unchecked_from: Option<u64>,
    /// The first [`MAX_LISTED`] bad ranges.
    bad: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    start_sector: u64,
    end_sector: u64,
    reason: String,
}

impl Check {
    pub(crate) fn run(self) -> Result<Outcome> {
        let interrupt = Interrupt::watch()?;
        let report = match self.mounted()? {
            Some(mounted) => self.check_mounted(&mounted, &interrupt)?,
            None => self.check_alone(&interrupt)?,
        };
        let outcome = match report.ok {
            true => Outcome::Good,
            false => Outcome::Bad,
        };
        if report.discarded_ranges > 0 {
            say(format_args!(
                "note: {} of {} bad ranges look discarded, not damaged: \
                 if blocks of the volume were discarded, always use it with --allow-discards",
                report.discarded_ranges, report.bad_ranges
            ));
        }
        outcome.reported(self.write(&report))
    }

    /// Where the volume is mounted, if that keeps it from being opened here.
    fn mounted(&self) -> Result<Option<MountedVolume>> {
        match self.accept.is_empty() && self.devices.are_in_use() {
            true => MountedVolume::find(&self.devices.volume),
            false => Ok(None),
        }
    }

    /// Checks through the process that has the volume.
    fn check_mounted(&self, mounted: &MountedVolume, interrupt: &Interrupt) -> Result<Report> {
        let mut report = Report::new(self.devices.shown(), mounted.size());
        let bar = bytes_bar(mounted.size(), "checking");
        let checked = mounted.check(
            &mut |sectors, reason| report.add(sectors, reason),
            &mut |bytes| {
                bar.inc(bytes);
                interrupt.go_on()
            },
        );
        bar.finish_and_clear();
        checked.with_context(|| self.devices.shown())?;
        Ok(report)
    }

    fn check_alone(&self, interrupt: &Interrupt) -> Result<Report> {
        let volume = self.open()?;
        let report = self.check(&volume, interrupt);
        let report = report.with_context(|| self.devices.shown());
        // Close it even if the check was interrupted.
        let closed = volume.close().with_context(|| self.devices.shown());
        report.and_then(|report| closed.map(|()| report))
    }

    /// Opens the volume in the mode that changes it as little as possible.
    fn open(&self) -> Result<Volume> {
        let devices = self.devices.open_read_only()?;
        let superblock = Superblock::read(&devices[0], 0).with_context(|| self.devices.shown())?;
        let must_write = !self.accept.is_empty();
        let is_incomplete =
            superblock.has_dirty_bitmap() || superblock.recalculation_sector().is_some();
        if !must_write && !is_incomplete {
            return self.open_in(Mode::ReadOnly, &devices);
        }
        drop(devices);
        match self.devices.open() {
            Err(error) if !must_write && cannot_be_written(&error) => {
                self.open_in(Mode::ReadOnly, &self.devices.open_read_only()?)
            }
            devices => {
                let mode = match superblock.has_dirty_bitmap() {
                    true => Mode::Bitmap,
                    false => Mode::Direct,
                };
                self.open_in(mode, &devices?)
            }
        }
    }

    fn open_in(&self, mode: Mode, devices: &[Device]) -> Result<Volume> {
        let open = || {
            let options = OpenOptions {
                integrity: self.integrity.integrity()?,
                mode,
                allow_discards: self.allow_discards,
                ..OpenOptions::default()
            };
            anyhow::Ok(Volume::open(devices_of(devices), &options)?)
        };
        open().with_context(|| self.devices.shown())
    }

    fn check(&self, volume: &Volume, interrupt: &Interrupt) -> Result<Report> {
        if volume.mode() != Mode::ReadOnly {
            self.recalculate(volume, interrupt)?;
        }
        for sectors in &self.accept {
            volume.accept_unverified(sectors.clone())?;
        }
        let mut report = Report::new(self.devices.shown(), volume.size());
        report.unchecked_from = volume.recalculation_sector();
        let bar = bytes_bar(volume.size(), "checking");
        let mut bytes_done = 0;
        let checked = volume.check(
            all_processors(),
            &mut |bad| report.add_bad(&bad),
            &mut |bytes| {
                bytes_done += bytes;
                bar.inc(bytes);
                interrupt.go_on()
            },
        );
        bar.finish_and_clear();
        checked.with_context(|| {
            let Report {
                size, bad_bytes, ..
            } = report;
            format!("checked {bytes_done} of {size} bytes, {bad_bytes} of them bad")
        })?;
        Ok(report)
    }

    /// Finishes a pending recalculation, without which a part of the volume cannot be checked.
    fn recalculate(&self, volume: &Volume, interrupt: &Interrupt) -> Result<()> {
        let Some(sector) = volume.recalculation_sector() else {
            return Ok(());
        };
        let bar = bytes_bar(volume.size() - sector * SECTOR, "recalculating tags");
        let mut bytes_done = 0;
        let done = volume.recalculate(&mut |bytes| {
            bytes_done += bytes;
            bar.inc(bytes);
            interrupt.go_on()
        });
        bar.finish_and_clear();
        done?;
        say(format_args!(
            "note: recalculated the tags of {bytes_done} bytes that were left unchecked by a crash"
        ));
        Ok(())
    }

    fn write(&self, report: &Report) -> io::Result<()> {
        let mut out = stdout().lock();
        match self.json {
            true => writeln!(out, "{}", serde_json::to_string_pretty(report)?),
            false => report.print(&mut out),
        }
    }
}

impl Report {
    /// A report without anything bad yet.
    fn new(volume: String, size: u64) -> Self {
        Self {
            volume,
            size,
            ok: true,
            bad_bytes: 0,
            bad_ranges: 0,
            discarded_ranges: 0,
            unchecked_from: None,
            bad: Vec::new(),
        }
    }

    fn add_bad(&mut self, bad: &BadRange) {
        if matches!(&bad.reason, BadReason::Mismatch(block) if block.is_discarded()) {
            self.discarded_ranges += 1;
        }
        self.add(bad.sectors.clone(), &bad.reason);
    }

    fn add(&mut self, sectors: Range<u64>, reason: &dyn Display) {
        self.ok = false;
        self.bad_ranges += 1;
        self.bad_bytes += (sectors.end - sectors.start) * SECTOR;
        if self.bad.len() < MAX_LISTED {
            self.bad.push(Finding {
                start_sector: sectors.start,
                end_sector: sectors.end,
                reason: reason.to_string(),
            });
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { volume, size, .. } = self;
        match self.unchecked_from {
            Some(sector) => writeln!(
                out,
                "{volume}: not all blocks from sector {sector} on were checked: the tags of those that were \
                 being written in a crash have to be recalculated, and the volume cannot be written"
            )?,
            None if self.ok => {
                return writeln!(out, "{volume}: all {size} bytes match their tags");
            }
            None => {}
        }
        for Finding {
            start_sector,
            end_sector,
            reason,
        } in &self.bad
        {
            writeln!(
                out,
                "{volume}: bad sectors {start_sector}..{end_sector}: {reason}"
            )?;
        }
        writeln!(
            out,
            "{volume}: {} of {size} bytes are bad, in {} ranges",
            self.bad_bytes, self.bad_ranges
        )
    }
}

/// Whether a device can be read, but not written.
fn cannot_be_written(error: &anyhow::Error) -> bool {
    let error = error.root_cause().downcast_ref::<io::Error>();
    error.is_some_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        )
    })
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(start, end)| {
        let (start, end) = (start.parse().ok()?, end.parse().ok()?);
        (start < end).then_some(start..end)
    });
    range.ok_or_else(|| "a range of sectors has the form START..END".to_owned())
}
