use std::{
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

use super::args::{DeviceArgs, IntegrityArgs, devices_of};

/// Read all blocks of a volume and name every bad range
///
/// What a crash has left is put in order first, as wherever the volume is used: a journal is
/// replayed, and tags that a bitmap names are computed anew.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    integrity: IntegrityArgs,
    /// Let blocks pass that were discarded
    #[arg(long)]
    allow_discards: bool,
    /// First give these sectors, START..END, the tags of whatever data they hold; may be repeated
    #[arg(long, value_name = "RANGE", value_parser = parse_range)]
    accept: Vec<Range<u64>>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The most bad ranges that are listed one by one.
const MAX_LISTED: usize = 10_000;

#[derive(Serialize)]
struct Report {
    /// As [`DeviceArgs::shown`] shows it: not every path is text.
    volume: String,
    size: u64,
    ok: bool,
    bad_bytes: u64,
    bad_ranges: u64,
    /// How many of them begin with a block whose tag says that it was discarded.
    discarded_ranges: u64,
    /// The first [`MAX_LISTED`] of them.
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
        let volume = self.open()?;
        let report = self.check(&volume, &interrupt);
        let report = report.with_context(|| self.devices.shown());
        // Also where it was interrupted.
        let closed = volume.close().with_context(|| self.devices.shown());
        let report = report.and_then(|report| closed.map(|()| report))?;
        let outcome = match report.ok {
            true => Outcome::Good,
            false => Outcome::Bad,
        };
        if report.discarded_ranges > 0 {
            say(format_args!(
                "note: {} of {} bad ranges look discarded, not damaged: \
                 if blocks of the volume were discarded, give --allow-discards, here and wherever it is used",
                report.discarded_ranges, report.bad_ranges
            ));
        }
        outcome.reported(self.write(&report))
    }

    /// Opens the volume in the mode that changes as little as possible of it.
    fn open(&self) -> Result<Volume> {
        let devices = self.devices.open()?;
        let open = || {
            let superblock = Superblock::read(&devices[0], 0)?;
            let mode = match superblock.has_dirty_bitmap() {
                true => Mode::Bitmap,
                false => Mode::Direct,
            };
            let options = OpenOptions {
                integrity: self.integrity.integrity()?,
                mode,
                allow_discards: self.allow_discards,
                ..OpenOptions::default()
            };
            anyhow::Ok(Volume::open(devices_of(&devices), &options)?)
        };
        open().with_context(|| self.devices.shown())
    }

    fn check(&self, volume: &Volume, interrupt: &Interrupt) -> Result<Report> {
        self.recalculate(volume, interrupt)?;
        for sectors in &self.accept {
            volume.accept_unverified(sectors.clone())?;
        }
        let mut report = Report {
            volume: self.devices.shown(),
            size: volume.size(),
            ok: true,
            bad_bytes: 0,
            bad_ranges: 0,
            discarded_ranges: 0,
            bad: Vec::new(),
        };
        let bar = bytes_bar(volume.size(), "checking");
        let mut bytes_done = 0;
        let checked = volume.check(
            all_processors(),
            &mut |bad| report.add(&bad),
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

    /// Computes the tags anew without which a part of the volume cannot be checked.
    fn recalculate(&self, volume: &Volume, interrupt: &Interrupt) -> Result<()> {
        let Some(sector) = volume.recalculation_sector() else {
            return Ok(());
        };
        let bar = bytes_bar(volume.size() - sector * SECTOR, "computing tags anew");
        let mut bytes_done = 0;
        let done = volume.recalculate(&mut |bytes| {
            bytes_done += bytes;
            bar.inc(bytes);
            interrupt.go_on()
        });
        bar.finish_and_clear();
        done?;
        say(format_args!(
            "note: computed the tags of {bytes_done} bytes anew, which a crash had left without"
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
    fn add(&mut self, bad: &BadRange) {
        self.ok = false;
        self.bad_ranges += 1;
        self.bad_bytes += (bad.sectors.end - bad.sectors.start) * SECTOR;
        if matches!(&bad.reason, BadReason::Mismatch(block) if block.is_discarded()) {
            self.discarded_ranges += 1;
        }
        if self.bad.len() < MAX_LISTED {
            self.bad.push(Finding {
                start_sector: bad.sectors.start,
                end_sector: bad.sectors.end,
                reason: match &bad.reason {
                    BadReason::Mismatch(block) => block.to_string(),
                    BadReason::Unreadable(error) => error.to_string(),
                },
            });
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { volume, size, .. } = self;
        if self.ok {
            return writeln!(out, "{volume}: all {size} bytes match their tags");
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

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(start, end)| {
        let (start, end) = (start.parse().ok()?, end.parse().ok()?);
        (start < end).then_some(start..end)
    });
    range.ok_or_else(|| "a range of sectors is START..END".to_owned())
}
