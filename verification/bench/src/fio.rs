//! fio, which reads and writes files according to a job.

use std::{path::Path, process::Command};

use anyhow::Result;
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
