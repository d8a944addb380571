use std::{
    fs,
    io::{self, Write},
    mem,
    ops::Range,
    os::unix::fs::FileTypeExt,
    path::{PathBuf, absolute},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::geteuid;
use serde::Serialize;
use verimount::{Progress, Step};
use verimount_host::{
    mounts::CheckEvent,
    one_line, printable,
    volume::{self, BadRange, CheckOptions, SECTOR, Watcher},
};
use verimount_sync::Mutex;

use super::{
    args::{IntegrityArgs, SourceArgs, when_closed},
    exported,
    mounted::{MountedVolume, volume_status},
};
use crate::{
    Outcome, interrupt,
    list::{Way, ask_everything},
    message::{counted, say},
    progress::{Bar, watch},
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
    source: SourceArgs,
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

#[derive(Default, Serialize)]
pub(super) struct Report {
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
    /// The number of bytes whose tags were recalculated first.
    #[serde(skip)]
    recalculated: u64,
}

#[derive(Serialize)]
struct Finding {
    start_sector: u64,
    end_sector: u64,
    reason: String,
}

impl Check {
    pub(crate) fn run(self) -> Result<Outcome> {
        let report = match self.online()? {
            Some(online) => self.check_online(&online)?,
            None => self.check_alone()?,
        };
        if report.discarded_ranges > 0 {
            say(format_args!(
                "note: {} of {} bad ranges look discarded, not damaged: \
                 if blocks of the volume were discarded, always use it with --allow-discards",
                report.discarded_ranges, report.bad_ranges
            ));
        }
        Outcome::of_data(report.ok).report(self.json.then_some(&report), |out| report.print(out))
    }

    /// The process that has the volume, if that keeps it from being opened here.
    fn online(&self) -> Result<Option<Online>> {
        let path = &self.source.devices.volume;
        let is_socket = fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket && !self.accept.is_empty() {
            bail!(
                "{}: --accept takes a volume that is not in use",
                self.source.devices.shown()
            );
        }
        if is_socket {
            return Ok(Some(Online::Exported(path.clone())));
        }
        if !self.accept.is_empty() || !self.source.files().are_in_use() {
            return Ok(None);
        }
        let source = printable(&absolute(path)?).to_string();
        for told in ask_everything()? {
            let status = told
                .answer
                .ok()
                .and_then(|status| volume_status(status, &source));
            let Some(status) = status else { continue };
            return Ok(Some(match told.way {
                Way::Mount(mount) => {
                    Online::Mounted(MountedVolume::of(mount, &source, status)?.into())
                }
                // Root may see those of others, too.
                Way::Export(export) if export.user != geteuid().as_raw() => continue,
                Way::Export(export) => Online::Exported(export.socket),
            }));
        }
        Ok(None)
    }

    /// Checks through the process that has the volume.
    fn check_online(&self, online: &Online) -> Result<Report> {
        let mut report = Report::new(self.source.devices.shown());
        let bar = Bar::new(0, "checking");
        interrupt::watch()?;
        let mut heard = |event| {
            match event {
                CheckEvent::Begun { size, .. } => bar.set_total(size),
                CheckEvent::Done { bytes } => bar.add(bytes),
                _ => {}
            }
            report.hear(event);
        };
        let checked = match online {
            Online::Mounted(mounted) => mounted.check(&mut heard),
            Online::Exported(socket) => exported::check(socket, &mut heard),
        };
        checked
            .inspect_err(|_| report.say_progress())
            .with_context(|| self.source.devices.shown())?;
        Ok(report)
    }

    fn check_alone(&self) -> Result<Report> {
        let report = Arc::new(Mutex::new(Report::new(self.source.devices.shown())));
        let (reached, bars) = (report.clone(), watch()?);
        let options = CheckOptions {
            integrity: self.integrity.integrity()?,
            allow_discards: self.allow_discards,
            accept_unverified: self.accept.clone(),
            watcher: Watcher::new(move |progress| {
                reached.lock().reach(&progress);
                bars.watch()(progress)
            }),
        };
        let files = self.source.files();
        let mut found = |bad: &BadRange| report.lock().hear(CheckEvent::from(bad));
        let checked = when_closed(|| volume::check(&files, &options, &mut found));
        // With its bars.
        drop(options);
        let mut report = mem::take(&mut *report.lock());
        // The volume was changed, even if the check then ended early.
        if report.recalculated > 0 {
            say(format_args!(
                "note: recalculated the tags of {} bytes that were left unchecked by a crash",
                report.recalculated
            ));
        }
        let checked = checked.inspect_err(|_| report.say_progress())?;
        report.hear(CheckEvent::Begun {
            size: checked.size,
            unchecked_from: checked.unchecked_from,
        });
        Ok(report)
    }
}

/// A volume that another process has.
enum Online {
    Mounted(Box<MountedVolume>),
    /// At this socket.
    Exported(PathBuf),
}

impl Report {
    /// A report of nothing yet.
    pub(super) fn new(volume: String) -> Self {
        Self {
            volume,
            ok: true,
            ..Self::default()
        }
    }

    pub(super) fn hear(&mut self, event: CheckEvent) {
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

    fn reach(&mut self, progress: &Progress) {
        match progress.step {
            Step::Recalculate => self.recalculated = progress.done,
            Step::Check => {
                self.checked = progress.done;
                self.size = progress.total;
            }
            _ => {}
        }
    }

    /// Says how far a check has come that did not finish, if it had begun.
    fn say_progress(&self) {
        let Self {
            checked,
            size,
            bad_bytes,
            ..
        } = self;
        if *size > 0 {
            say(format_args!(
                "note: checked {checked} of {size} bytes, {bad_bytes} of them bad"
            ));
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
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
            "{volume}: {} of {size} bytes are bad, in {}",
            self.bad_bytes,
            counted(self.bad_ranges, "range")
        )
    }
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(start, end)| {
        let (start, end) = (start.parse().ok()?, end.parse().ok()?);
        (start < end).then_some(start..end)
    });
    range.ok_or_else(|| "a range of sectors has the form START..END".to_owned())
}
