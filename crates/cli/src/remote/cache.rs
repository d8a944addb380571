use std::{
    io::{self, Write, stdout},
    time::SystemTime,
};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use verimount::Cache;
use verimount_host::{
    cache::{CheckedCopy, Stored, verify},
    printable,
};

use super::access::CacheArgs;
use crate::{Outcome, commands::commands, json::write_report};

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

/// The cache as JSON.
#[derive(Serialize)]
struct JsonCache {
    /// As [`printable`] shows it.
    directory: String,
    limit: u64,
    allocated: u64,
    objects: Vec<JsonObject>,
}

#[derive(Serialize)]
struct JsonObject {
    key: String,
    part: String,
    size: u64,
    allocated: u64,
    /// In seconds since 1970.
    used: u64,
}

/// What was found in the cache, as JSON.
#[derive(Serialize)]
struct JsonVerified {
    /// As [`printable`] shows it.
    directory: String,
    ok: bool,
    objects: Vec<JsonChecked>,
}

/// How many bytes of an object match, were removed, and cannot be checked.
#[derive(Serialize)]
struct JsonChecked {
    key: String,
    good: u64,
    removed: u64,
    unchecked: u64,
}

impl From<CheckedCopy> for JsonChecked {
    fn from(copy: CheckedCopy) -> Self {
        Self {
            key: copy.key.to_string(),
            good: copy.good,
            removed: copy.removed,
            unchecked: copy.unchecked,
        }
    }
}

impl Info {
    fn run(self) -> Result<Outcome> {
        let cache = self.cache.open()?;
        let shown = JsonCache::new(&cache, &cache.stored()?);
        Outcome::Good.report(self.json.then_some(&shown), |out| print(out, &shown))
    }
}

impl JsonCache {
    fn new(cache: &Cache, stored: &[Stored]) -> Self {
        let objects = stored.iter().map(|stored| JsonObject {
            key: stored.key.to_string(),
            part: stored.part.to_string(),
            size: stored.size,
            allocated: stored.allocated,
            used: stored
                .used
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        });
        Self {
            directory: printable(cache.path()).to_string(),
            limit: cache.limit(),
            allocated: stored.iter().map(|stored| stored.allocated).sum(),
            objects: objects.collect(),
        }
    }
}

fn print(out: &mut impl Write, cache: &JsonCache) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} of {} bytes",
        cache.directory, cache.allocated, cache.limit
    )?;
    for object in &cache.objects {
        writeln!(
            out,
            "{} {}: {} bytes, {} on disk",
            object.key, object.part, object.size, object.allocated
        )?;
    }
    Ok(())
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
            if copy.removed > 0 {
                outcome = Outcome::Bad;
            }
            if self.json {
                checked.push(JsonChecked::from(copy));
            } else if written.is_ok() {
                written = writeln!(
                    stdout(),
                    "{}: {} bytes match, {} were removed, {} cannot be checked",
                    copy.key,
                    copy.good,
                    copy.removed,
                    copy.unchecked
                );
            }
        })?;
        if self.json {
            let report = JsonVerified {
                directory: printable(cache.path()).to_string(),
                ok: outcome == Outcome::Good,
                objects: checked,
            };
            written = write_report(&mut stdout().lock(), &report);
        }
        outcome.reported(written)
    }
}
