use std::{
    io::{self, Write},
    iter,
    path::PathBuf,
};

use anyhow::Result;
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use verimount::{
    Finding, Location, Repaired, Report, VerifyOptions,
    options::{BadReason, BlockKind},
};
use verimount_host::printable;

use crate::{
    Outcome,
    content_args::ContentArgs,
    json::shown,
    message::{counted, say, wrong_usage},
    model_args::read_model_key,
    options::location,
    progress::watch,
};

/// Read a whole sealed file and list every bad range and the affected files
///
/// Without --digest, --root-hash or --key this detects damage, but not forgery: anyone who changes
/// a file can seal it again. For an image, the affected files in it are listed; a note says so if
/// damage hides some of their names.
///
/// With --repair-from, bad data and bad blocks of the Merkle tree are replaced by those of a mirror, and the file is verified
/// once more. Mirrors without --repair change nothing here: what is bad in the file is bad.
#[derive(Args)]
#[command(mut_arg("unverified", |arg| arg.hide(true)))]
pub(crate) struct Verify {
    /// The sealed file or image, its URL, or its name in a registry or object store
    #[arg(value_name = "FILE", value_parser = location(), value_hint = ValueHint::AnyPath)]
    file: Location,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Also check the OpenSSF model signature that the image keeps, with this public key, and all files with it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    model_key: Option<PathBuf>,
    /// Replace what is bad by what is right at this place of the same content: like --mirror with --repair. May be given several
    /// times
    #[arg(long, value_name = "LOCATION", value_parser = location(), value_hint = ValueHint::AnyPath, conflicts_with = "unverified")]
    repair_from: Vec<Location>,
    #[command(flatten)]
    content: ContentArgs,
}

impl Verify {
    pub(crate) fn run(mut self) -> Result<Outcome> {
        self.content.mirrors.add_repairing(&self.repair_from);
        if self.content.trust.is_unverified() {
            return Err(wrong_usage("--unverified contradicts verify"));
        }
        let key = self.model_key.as_deref().map(read_model_key).transpose()?;
        let opened = self.content.open(&self.file)?;
        let mut reports = Vec::new();
        // The image, and its devices.
        for file in iter::once(&opened).chain(opened.devices()) {
            let is_image = reports.is_empty();
            let options = VerifyOptions {
                model_key: key.clone().filter(|_| is_image),
                watcher: watch()?,
            };
            let report = file.verify(&options)?;
            if let Some(error) = &report.unnamed {
                say(format_args!("note: not all files can be named: {error}"));
            }
            reports.push((file.location().to_string(), report));
        }
        let is_good = reports.iter().all(|(_, report)| report.is_good());
        let json = self.json.then(|| to_json(&reports, is_good)).flatten();
        Outcome::of_data(is_good).report(json, |out| {
            let mut reports = reports.iter();
            reports.try_for_each(|(file, report)| print(out, file, report))
        })
    }
}

/// The report of an image, which is the first, with those of its devices.
fn to_json(reports: &[(String, Report)], is_good: bool) -> Option<Value> {
    let mut all = reports
        .iter()
        .map(|(file, report)| report_json(file, report));
    let mut image = all.next()?;
    image["ok"] = is_good.into();
    let devices: Vec<Value> = all.collect();
    if !devices.is_empty() {
        image["devices"] = devices.into();
    }
    Some(image)
}

fn report_json(file: &str, report: &Report) -> Value {
    let mut json = json!({
        "file": file,
        "digest": report.identity.to_string(),
        "size": report.size,
        "ok": report.is_good(),
        "bad_bytes": report.bad_bytes,
        "bad_ranges": report.bad_ranges,
        // The first of them.
        "bad": report.bad.iter().map(finding_json).collect::<Vec<_>>(),
    });
    // What was replaced, if something was bad and that was wanted, and how many bytes are bad nevertheless.
    if let Some(Repaired {
        ranges, bad_bytes, ..
    }) = report.repaired
    {
        json["repaired"] = json!({"ranges": ranges, "bad_bytes": bad_bytes});
    }
    // A defect of the image although all bytes match.
    json["image"] = report.defect.as_ref().map(ToString::to_string).into();
    // The model whose signature was checked.
    let model = report.model.as_ref();
    json["model"] = model
        .map(|model| json!({"name": model.name, "files": model.files}))
        .into();
    json
}

fn finding_json(finding: &Finding) -> Value {
    let place = match &finding.reason {
        BadReason::Mismatch(mismatch) => match mismatch.place {
            BlockKind::Data => "data".to_owned(),
            BlockKind::Tree(level) => format!("tree level {level}"),
        },
        BadReason::Unreadable(_) => "unreadable".to_owned(),
    };
    json!({
        "start": finding.range.start,
        "end": finding.range.end,
        "place": place,
        "reason": finding.reason.to_string(),
        "files": shown(&finding.files),
    })
}

fn print(out: &mut impl Write, file: &str, report: &Report) -> io::Result<()> {
    if report.bad_ranges == 0 && report.repaired.is_none() && report.is_good() {
        let (size, identity) = (report.size, report.identity);
        writeln!(out, "{file}: all {size} bytes match {identity}")?;
        if let Some(model) = &report.model {
            let (name, files) = (printable(&model.name), model.files);
            writeln!(
                out,
                "{file}: all {files} files are those of the signed model {name}"
            )?;
        }
        return Ok(());
    }
    if report.bad_ranges == 0
        && let Some(defect) = &report.defect
    {
        return writeln!(out, "{file}: {defect}");
    }
    for Finding {
        range,
        reason,
        files,
        ..
    } in &report.bad
    {
        let len = range.end - range.start;
        writeln!(out, "{file}: {len} bad bytes at {}: {reason}", range.start)?;
        for path in files {
            writeln!(out, "  in {}", printable(path))?;
        }
    }
    if report.bad_ranges > 0 {
        writeln!(
            out,
            "{file}: {} of {} bytes are bad, in {}",
            report.bad_bytes,
            report.size,
            counted(report.bad_ranges, "range")
        )?;
    }
    let Some(repaired) = &report.repaired else {
        return Ok(());
    };
    let ranges = counted(repaired.ranges, "range");
    match (repaired.bad_bytes, &report.defect) {
        (0, None) => writeln!(
            out,
            "{file}: {ranges} repaired: all {} bytes match {} now",
            report.size, report.identity
        ),
        (0, Some(defect)) => writeln!(out, "{file}: {ranges} repaired: {defect}"),
        (bad, _) => writeln!(out, "{file}: {ranges} repaired: {bad} bytes are still bad"),
    }
}
