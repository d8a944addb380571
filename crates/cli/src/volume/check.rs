use std::{
    fs,
    io::{self, Write, stdout},
    ops::{ControlFlow, Range},
    os::unix::fs::FileTypeExt,
    path::absolute,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use verimount::{
    Error,
    volume::{Access, OpenFiles},
};
use verimount_integrity::{Mode, OpenOptions, SECTOR, Superblock, Volume};
use verimount_names::{one_line, printable};
use verimount_serve::CheckEvent;

use crate::{Outcome, interrupt::Interrupt, message::say, options::all_processors, progress::Bar};

use super::{
    args::{DeviceArgs, IntegrityArgs, when_closed},
    exported::ExportedVolume,
    mounted::MountedVolume,
};

/// Read all blocks of a volume and list every bad range
///
/// A volume that is mounted or exported is checked through the process that has it, while it is used, and by the
/// mode and options of that; VOLUME may then also be the export's socket.
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
    /// The number of bytes that were checked. All of them in a report that is printed.
    #[serde(skip)]
    checked: u64,
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
        let report = match self.online()? {
            Some(online) => self.check_online(&online, &interrupt)?,
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

    /// The process that has the volume, if that keeps it from being opened here.
    fn online(&self) -> Result<Option<Online>> {
        let path = &self.devices.volume;
        let is_socket = fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket && !self.accept.is_empty() {
            bail!(
                "{}: --accept takes a volume that is not in use",
                self.devices.shown()
            );
        }
        if is_socket {
            return Ok(Some(Online::Exported(ExportedVolume::at(path))));
        }
        if !self.accept.is_empty() || !self.devices.files().are_in_use() {
            return Ok(None);
        }
        let source = printable(&absolute(path)?).to_string();
        Ok(match MountedVolume::find(&source)? {
            Some(mounted) => Some(Online::Mounted(mounted)),
            None => ExportedVolume::find(&source).map(Online::Exported),
        })
    }

    /// Checks through the process that has the volume.
    fn check_online(&self, online: &Online, interrupt: &Interrupt) -> Result<Report> {
        let mut report = Report::new(self.devices.shown());
        let bar = Bar::new(0, "checking");
        let checked = online.check(&|| interrupt.go_on(), &mut |event| {
            match event {
                CheckEvent::Begun { size, .. } => bar.set_total(size),
                CheckEvent::Done { bytes } => bar.add(bytes),
                _ => {}
            }
            report.hear(event);
            interrupt.go_on()
        });
        checked
            .with_context(|| report.progress())
            .with_context(|| self.devices.shown())?;
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
        let files = self.devices.files();
        let devices = when_closed(|| files.open(Access::ReadOnly))?;
        let superblock =
            Superblock::read(&devices.each()[0], 0).with_context(|| self.devices.shown())?;
        let must_write = !self.accept.is_empty();
        let is_incomplete =
            superblock.has_dirty_bitmap() || superblock.recalculation_sector().is_some();
        if !must_write && !is_incomplete {
            return self.open_in(Mode::ReadOnly, &devices);
        }
        drop(devices);
        match when_closed(|| files.open(Access::Write)) {
            Err(error) if !must_write && cannot_be_written(&error) => {
                self.open_in(Mode::ReadOnly, &files.open(Access::ReadOnly)?)
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

    fn open_in(&self, mode: Mode, devices: &OpenFiles) -> Result<Volume> {
        let open = || {
            let options = OpenOptions {
                integrity: self.integrity.integrity()?,
                mode,
                allow_discards: self.allow_discards,
                ..OpenOptions::default()
            };
            anyhow::Ok(Volume::open(devices.devices(), &options)?)
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
        let mut report = Report::new(self.devices.shown());
        report.hear(CheckEvent::Begun {
            size: volume.size(),
            unchecked_from: volume.recalculation_sector(),
        });
        let bar = Bar::new(volume.size(), "checking");
        let mut bytes_done = 0;
        let checked = volume.check(
            all_processors(),
            &mut |bad| report.hear(CheckEvent::from(&bad)),
            &mut |bytes| {
                bytes_done += bytes;
                bar.add(bytes);
                interrupt.go_on()
            },
        );
        report.hear(CheckEvent::Done { bytes: bytes_done });
        checked.with_context(|| report.progress())?;
        Ok(report)
    }

    /// Finishes a pending recalculation, without which a part of the volume cannot be checked.
    fn recalculate(&self, volume: &Volume, interrupt: &Interrupt) -> Result<()> {
        let Some(sector) = volume.recalculation_sector() else {
            return Ok(());
        };
        let bar = Bar::new(volume.size() - sector * SECTOR, "recalculating tags");
        let mut bytes_done = 0;
        let done = volume.recalculate(&mut |bytes| {
            bytes_done += bytes;
            bar.add(bytes);
            interrupt.go_on()
        });
        drop(bar);
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

/// A volume that another process has.
enum Online {
    Mounted(MountedVolume),
    Exported(ExportedVolume),
}

impl Online {
    fn check(
        &self,
        interrupted: &dyn Fn() -> ControlFlow<()>,
        heard: &mut dyn FnMut(CheckEvent) -> ControlFlow<()>,
    ) -> Result<()> {
        match self {
            Self::Mounted(mounted) => mounted.check(heard),
            Self::Exported(exported) => exported.check(interrupted, heard),
        }
    }
}

impl Report {
    /// A report of nothing yet.
    fn new(volume: String) -> Self {
        Self {
            volume,
            size: 0,
            ok: true,
            bad_bytes: 0,
            bad_ranges: 0,
            discarded_ranges: 0,
            unchecked_from: None,
            bad: Vec::new(),
            checked: 0,
        }
    }

    fn hear(&mut self, event: CheckEvent) {
        match event {
            CheckEvent::Begun {
                size,
                unchecked_from,
            } => {
                self.size = size;
                self.unchecked_from = unchecked_from;
            }
            CheckEvent::Bad {
                sectors,
                reason,
                is_discarded,
            } => {
                self.discarded_ranges += u64::from(is_discarded);
                self.add(&sectors, &reason);
            }
            CheckEvent::Done { bytes } => self.checked = self.checked.saturating_add(bytes),
            _ => {}
        }
    }

    fn add(&mut self, sectors: &Range<u64>, reason: &str) {
        self.ok = false;
        self.bad_ranges += 1;
        self.bad_bytes += (sectors.end - sectors.start) * SECTOR;
        if self.bad.len() < MAX_LISTED {
            self.bad.push(Finding {
                start_sector: sectors.start,
                end_sector: sectors.end,
                // It may come from another process.
                reason: one_line(reason).to_string(),
            });
        }
    }

    /// How far a check has come that did not finish.
    fn progress(&self) -> String {
        let Self {
            checked,
            size,
            bad_bytes,
            ..
        } = self;
        format!("checked {checked} of {size} bytes, {bad_bytes} of them bad")
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { volume, size, .. } = self;
        match self.unchecked_from {
            Some(sector) => writeln!(
                out,
                "{volume}: not all blocks from sector {sector} on were checked: the tags of those that were \
                 being written in a crash are not recalculated yet"
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
fn cannot_be_written(error: &Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error, Error::Io { source, .. } if matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem))
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(start, end)| {
        let (start, end) = (start.parse().ok()?, end.parse().ok()?);
        (start < end).then_some(start..end)
    });
    range.ok_or_else(|| "a range of sectors has the form START..END".to_owned())
}
