//! fio, which reads and writes files as it is told.

use std::{path::Path, process::Command};

use anyhow::Result;
use serde_json::Value;

use crate::command;

/// fio with one job on `file`; what the job does is left to be said.
pub(crate) fn fio(file: &Path) -> Command {
    let mut fio = Command::new("fio");
    fio.args(["--name=job", "--output-format=json"])
        .arg(format!("--filename={}", file.display()));
    fio
}

/// What fio reports of its job.
pub(crate) fn job(fio: &mut Command) -> Result<Value> {
    let mut report: Value = serde_json::from_str(&command::stdout(fio)?)?;
    Ok(report["jobs"][0].take())
}
