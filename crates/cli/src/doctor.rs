use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use serde_json::json;
use verimount_host::doctor::{Diagnosis, Health, examine};

use crate::{Outcome, remote::usual_directory};

/// Show what this machine allows, what is slow on it, and what mends that
///
/// Nothing is changed. The exit code is 3 if nothing can be mounted.
#[derive(Args)]
pub(crate) struct Doctor {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<Outcome> {
        let cache = usual_directory().ok();
        let diagnoses = examine(cache.as_deref());
        let can_mount = diagnoses.iter().all(|one| one.health != Health::Missing);
        let outcome = if can_mount {
            Outcome::Good
        } else {
            Outcome::Failed
        };
        let json = self.json.then(|| json!({"diagnoses": diagnoses}));
        outcome.report(json, |out| print(out, &diagnoses))
    }
}

fn print(out: &mut impl Write, diagnoses: &[Diagnosis]) -> io::Result<()> {
    let width = diagnoses.iter().map(|one| one.about.len()).max();
    let width = width.unwrap_or_default();
    for Diagnosis {
        about,
        health,
        found,
        cure,
        ..
    } in diagnoses
    {
        let health = match health {
            Health::Good => "good",
            Health::Limited => "limited",
            Health::Missing => "missing",
        };
        writeln!(out, "{about:width$}  {health:7}  {found}")?;
        if let Some(cure) = cure {
            writeln!(out, "{:width$}           mend: {cure}", "")?;
        }
    }
    Ok(())
}
