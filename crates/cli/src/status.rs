mod fields;
mod metrics;
#[cfg(test)]
mod tests;
mod text;

use std::{
    io::{self, Write, stdout},
    path::{Path, PathBuf, absolute},
};

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use verimount_host::{mounts::Status as Told, one_line, printable};

use self::metrics::Metrics;
use crate::{
    Outcome,
    json::write_json,
    list::{Asked, ask_everything},
    target::Target,
};

/// Show the status of a mount or an export: what it is, and statistics of requests, verification
/// and mismatches
///
/// The exit code is 1 if any data that was read did not match, or if a volume has become read-only
/// because its storage failed; 3 if there is no status, or not all of them with --all; else 0, also
/// if another release was published in the place of this one (REPLACED).
#[derive(Args)]
pub(crate) struct Status {
    /// The mount point, or the socket of an export
    #[arg(
        value_name = "DIR|SOCKET",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    target: Option<PathBuf>,
    /// Show the status of all mounts and exports that verimount list shows and that may be asked
    #[arg(long)]
    all: bool,
    /// Print it as JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// Print it as metrics in Prometheus' text format
    #[arg(long)]
    prometheus: bool,
}

impl Status {
    pub(crate) fn run(self) -> Result<Outcome> {
        let Some(target) = &self.target else {
            let all = ask_everything()?;
            let outcome = worst(&all);
            return outcome.reported(self.write_all(&all));
        };
        let status = Target::at(target).status()?;
        Outcome::of_data(!status.is_bad()).reported(self.write(&status, target))
    }

    fn write(&self, status: &Told, target: &Path) -> io::Result<()> {
        let mut out = stdout().lock();
        if self.json {
            return write_json(&mut out, status);
        }
        if !self.prometheus {
            return text::print(&mut out, status);
        }
        let mut metrics = Metrics::default();
        metrics.add(&label(target)?, Some(status))?;
        metrics.print(&mut out)
    }

    fn write_all(&self, all: &[Asked]) -> io::Result<()> {
        let mut out = stdout().lock();
        if self.json {
            let answers: Vec<Value> = all.iter().map(to_json).collect();
            return write_json(&mut out, &answers);
        }
        let mut metrics = Metrics::default();
        for (number, Asked { target, answer, .. }) in all.iter().enumerate() {
            if self.prometheus {
                metrics.add(target, answer.as_ref().ok())?;
                continue;
            }
            let gap = if number > 0 { "\n" } else { "" };
            writeln!(out, "{gap}target         {}", one_line(target))?;
            match answer {
                Ok(status) => text::print(&mut out, status)?,
                Err(reason) => writeln!(out, "no status      {}", one_line(reason))?,
            }
        }
        metrics.print(&mut out)
    }
}

/// One of all, as JSON: with its status, or why there is none.
fn to_json(asked: &Asked) -> Value {
    let (status, error) = (asked.answer.as_ref().ok(), asked.answer.as_ref().err());
    json!({"target": asked.target, "status": status, "error": error})
}

/// What all of them mean together: bad data counts most.
fn worst(all: &[Asked]) -> Outcome {
    let mut answers = all.iter().map(|asked| &asked.answer);
    if answers.clone().flatten().any(Told::is_bad) {
        return Outcome::Bad;
    }
    if answers.any(Result::is_err) {
        Outcome::Failed
    } else {
        Outcome::Good
    }
}

/// The label of a target: the same from everywhere.
fn label(target: &Path) -> io::Result<String> {
    let target = target.canonicalize().or_else(|_| absolute(target))?;
    Ok(printable(&target).to_string())
}
