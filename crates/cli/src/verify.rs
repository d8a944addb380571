use std::{
    io::{self, Write, stdout},
    ops::Range,
    path::PathBuf,
};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use verimount::{
    Opened, Trust,
    image::{check, name_parts},
};
use verimount_names::printable;
use verimount_source::ReadAt;
use verimount_verity::{BadRange, BadReason, Place, VerifiedReader, survey};

use crate::{
    Outcome,
    message::{say, wrong_usage},
    opened::open,
    options::{ReadArgs, TrustArgs, all_processors},
    progress::bytes_bar,
};

/// Read a whole sealed file and list every bad range and the affected files
///
/// Without --digest, --root-hash or --key this detects damage, but not forgery: anyone who changes
/// a file can seal it again. For an image, the affected files in it are listed; a note says so if
/// damage hides some of their names.
#[derive(Args)]
pub(crate) struct Verify {
    /// The sealed file or image
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// The maximum number of bad ranges to list.
const MAX_LISTED: usize = 10_000;

#[derive(Serialize)]
struct Report {
    /// As [`printable`] shows it, as not every path is text.
    file: String,
    digest: String,
    size: u64,
    ok: bool,
    bad_bytes: u64,
    bad_ranges: u64,
    /// The first [`MAX_LISTED`] of them.
    bad: Vec<Finding>,
    /// A defect of the image although all bytes match.
    image: Option<String>,
}

impl Report {
    /// Reports an image whose header index differs from its headers as bad: other readers would see
    /// a different tree.
    fn compare_index(&mut self, opened: &Opened) {
        if let Err(error) = check(opened.content()) {
            self.ok = false;
            self.image = Some(error.to_string());
        }
    }
}

#[derive(Serialize)]
struct Finding {
    start: u64,
    end: u64,
    /// The kind of the bad block: data, a level of the Merkle tree, or unreadable.
    place: String,
    reason: String,
    /// As [`printable`] shows them.
    files: Vec<String>,
}

impl Verify {
    pub(crate) fn run(self) -> Result<Outcome> {
        if matches!(self.trust.trust()?, Trust::Unverified) {
            return Err(wrong_usage("--unverified contradicts verify"));
        }
        let opened = open(&self.file, &self.trust, &self.read)?;
        let reader = opened.reader().context("nothing is verified")?;
        let mut report = self.survey(reader);
        match report.ok {
            true => report.compare_index(&opened),
            false => name_files(&opened, &mut report.bad),
        }
        let outcome = match report.ok {
            true => Outcome::Good,
            false => Outcome::Bad,
        };
        outcome.reported(self.write(&report))
    }

    fn write(&self, report: &Report) -> io::Result<()> {
        let mut out = stdout().lock();
        match self.json {
            true => writeln!(out, "{}", serde_json::to_string_pretty(report)?),
            false => print(&mut out, report),
        }
    }

    fn survey(&self, reader: &VerifiedReader) -> Report {
        let mut report = Report {
            file: printable(&self.file).to_string(),
            digest: reader.identity().to_string(),
            size: reader.size(),
            ok: true,
            bad_bytes: 0,
            bad_ranges: 0,
            bad: Vec::new(),
            image: None,
        };
        let bar = bytes_bar(reader.size(), "verifying");
        let mut found = |bad: BadRange| {
            report.ok = false;
            report.bad_ranges += 1;
            report.bad_bytes += bad.range.end - bad.range.start;
            if report.bad.len() < MAX_LISTED {
                report.bad.push(Finding::new(&bad));
            }
        };
        survey(reader, all_processors(), &mut found, &mut |bytes| {
            bar.inc(bytes);
        });
        bar.finish_and_clear();
        report
    }
}

impl Finding {
    fn new(bad: &BadRange) -> Self {
        let place = match &bad.reason {
            BadReason::Mismatch(mismatch) => match mismatch.place {
                Place::Data => "data".to_owned(),
                Place::Tree(level) => format!("tree level {level}"),
            },
            BadReason::Unreadable(_) => "unreadable".to_owned(),
        };
        Self {
            start: bad.range.start,
            end: bad.range.end,
            place,
            reason: bad.reason.to_string(),
            files: Vec::new(),
        }
    }
}

/// Finds the files of an image that overlap the bad ranges, as far as names are readable.
fn name_files(opened: &Opened, findings: &mut [Finding]) {
    let named = name_parts(opened.content(), |range, path| {
        for finding in overlapping(findings, &range) {
            finding.files.push(printable(path).to_string());
        }
    });
    match named {
        Ok(None) => {}
        Ok(Some(error)) => say(format_args!("note: not all files can be named: {error}")),
        Err(error) => say(format_args!("note: no files can be named: {error}")),
    }
}

/// The findings that overlap `range`. `findings` is sorted by start.
fn overlapping<'a>(
    findings: &'a mut [Finding],
    range: &Range<u64>,
) -> impl Iterator<Item = &'a mut Finding> {
    let first = findings.partition_point(|finding| finding.end <= range.start);
    let end = range.end;
    findings[first..]
        .iter_mut()
        .take_while(move |finding| finding.start < end)
}

fn print(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let file = &report.file;
    if report.ok {
        return writeln!(
            out,
            "{file}: all {} bytes match {}",
            report.size, report.digest
        );
    }
    if let Some(defect) = &report.image {
        return writeln!(out, "{file}: {defect}");
    }
    for finding in &report.bad {
        let len = finding.end - finding.start;
        writeln!(
            out,
            "{file}: {len} bad bytes at {}: {}",
            finding.start, finding.reason
        )?;
        for name in &finding.files {
            writeln!(out, "  in {name}")?;
        }
    }
    writeln!(
        out,
        "{file}: {} of {} bytes are bad, in {} ranges",
        report.bad_bytes, report.size, report.bad_ranges
    )
}
