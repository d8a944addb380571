use std::{
    io::{Write, stdout},
    time::SystemTime,
};

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use verimount_host::{
    cache::{CheckedCopy, Stored, verify},
    printable,
};

use super::access::CacheArgs;
use crate::{Outcome, commands::commands, json::write_report, template};

commands! {
    /// Show, clear or verify the cache for content of URLs
    pub(crate) enum CacheCommand {
        Info(Info),
        Clear(Clear),
        Verify(Verify),
    }
}

/// Show what is kept, the least recently used first
#[derive(Args)]
pub(crate) struct Info {
    #[command(flatten)]
    cache: CacheArgs,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// Remove all that is kept, also what mounts are using: they fetch it again
#[derive(Args)]
pub(crate) struct Clear {
    #[command(flatten)]
    cache: CacheArgs,
}

/// Read all that is kept, and remove what does not match its digest
///
/// Reading through a mount does the same, so this is never necessary. The exit code is 1 if something did not
/// match. What is kept without its part of the Merkle tree cannot be checked, and stays.
#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    cache: CacheArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The [template](template::print) of what is kept.
const KEPT: &str = "\
|{directory}: {allocated} of {limit} bytes
objects|{key} {part}: {size} bytes, {allocated} on disk
";

impl Info {
    fn run(self) -> Result<Outcome> {
        let cache = self.cache.open()?;
        let stored = cache.stored()?;
        let allocated: u64 = stored.iter().map(|stored| stored.allocated).sum();
        let report = json!({
            "directory": printable(cache.path()).to_string(),
            "limit": cache.limit(),
            "allocated": allocated,
            "objects": stored.iter().map(object_json).collect::<Vec<_>>(),
        });
        let json = self.json.then_some(&report);
        Outcome::Good.report(json, |out| template::print(out, KEPT, &report))
    }
}

fn object_json(stored: &Stored) -> Value {
    let used = stored.used.duration_since(SystemTime::UNIX_EPOCH);
    json!({
        "key": stored.key.to_string(),
        "part": stored.part.to_string(),
        "size": stored.size,
        "allocated": stored.allocated,
        // In seconds since 1970.
        "used": used.map_or(0, |since| since.as_secs()),
    })
}

impl Clear {
    fn run(self) -> Result<Outcome> {
        let cleared = self.cache.open()?.clear()?;
        let line = writeln!(
            stdout(),
            "removed {} files of {} bytes on disk",
            cleared.objects,
            cleared.bytes
        );
        Outcome::Good.reported(line)
    }
}

impl Verify {
    fn run(self) -> Result<Outcome> {
        let cache = self.cache.open()?;
        let (mut outcome, mut written) = (Outcome::Good, Ok(()));
        let mut checked = Vec::new();
        verify(&cache, |copy: CheckedCopy| {
            let (key, good) = (copy.key.to_string(), copy.good);
            let (removed, unchecked) = (copy.removed, copy.unchecked);
            if removed > 0 {
                outcome = Outcome::Bad;
            }
            if self.json {
                checked.push(
                    json!({"key": key, "good": good, "removed": removed, "unchecked": unchecked}),
                );
            } else if written.is_ok() {
                written = writeln!(
                    stdout(),
                    "{key}: {good} bytes match, {removed} were removed, {unchecked} cannot be checked",
                );
            }
        })?;
        if self.json {
            let report = json!({
                "directory": printable(cache.path()).to_string(),
                "ok": outcome == Outcome::Good,
                "objects": checked,
            });
            written = write_report(&mut stdout().lock(), &report);
        }
        outcome.reported(written)
    }
}
