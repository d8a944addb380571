//! fio, which reads and writes files according to a job.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};
use serde_json::Value;
use verimount_support::command;

/// fio with one job on `file`; the caller adds what the job does.
pub(crate) fn fio(file: &Path) -> Command {
    with_job(&[format!("--filename={}", file.display())])
}

/// fio with one job on the disk of the NBD server at `socket`.
pub(crate) fn nbd(socket: &Path) -> Command {
    let uri = format!("--uri=nbd+unix:///?socket={}", socket.display());
    with_job(&["--ioengine=nbd".to_owned(), uri])
}

fn with_job(place: &[String]) -> Command {
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--output-format=json"]).args(place);
    fio
}

/// fio's report of its job.
pub(crate) fn job(fio: &mut Command) -> Result<Value> {
    let printed = command::stdout(fio)?;
    // The NBD engine first prints that it has connected.
    let report = printed.find('{').map_or("", |start| &printed[start..]);
    let mut report: Value = serde_json::from_str(report)?;
    Ok(report["jobs"][0].take())
}

/// Reads 4 KiB at positions that are the same each time; returns the time in seconds, by fio's own clock.
pub(crate) fn random_reads(file: &Path, reads: u64) -> Result<f64> {
    let mut fio = fio(file);
    fio.args(["--readonly", "--rw=randread", "--bs=4k"]);
    fio.args(["--ioengine=psync", "--randrepeat=1"]);
    let job = job(fio.arg(format!("--number_ios={reads}")))?;
    let (total, rate) = (
        job["read"]["total_ios"].as_f64(),
        job["read"]["iops"].as_f64(),
    );
    total
        .zip(rate)
        .map(|(total, rate)| total / rate)
        .context("fio reports no reads")
}
