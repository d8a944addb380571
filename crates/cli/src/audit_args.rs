use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use verimount_host::{
    audit::{AuditLog, AuditOptions, AuditTarget, Full},
    printable,
};

use crate::options::one_of;

/// How long an open waits for its record: longer than a log is rotated, or a disk is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a bridge records its decisions.
#[derive(Args)]
#[command(next_help_heading = "Audit")]
pub(crate) struct AuditArgs {
    /// Record what rules audit, and all that is denied: a line of JSON for each in this file, or to this Unix
    /// stream socket, before the open goes on
    #[arg(long, value_name = "TARGET")]
    audit: Option<PathBuf>,
    /// What becomes of an open whose record cannot be written: it waits, for up to 30 seconds, and then fails;
    /// deny: it fails at once; drop: it goes on, and the loss is counted
    #[arg(long, value_name = "HOW", default_value_t, requires = "audit", value_parser = one_of(Full::ALL, Full::name))]
    audit_full: Full,
    /// Let an open go on only when its record is on disk
    #[arg(long, requires = "audit")]
    audit_sync: bool,
}

impl AuditArgs {
    /// Opens the target, which must be below none of these directories.
    pub(crate) fn open(&self, not_below: &[&Path]) -> Result<Option<AuditTarget>> {
        let Some(path) = &self.audit else {
            return Ok(None);
        };
        let named = || printable(path).to_string();
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        for directory in not_below {
            if is_same(folder, directory) || is_below(folder, directory) {
                bail!(
                    "{} is inside {}: the audit log must be where the bridge's users cannot change it, nor wait for it",
                    named(),
                    printable(directory)
                );
            }
        }
        let target = AuditTarget::open(path).with_context(named)?;
        if self.audit_sync && !target.is_file() {
            bail!("{} is a socket: --audit-sync needs a file", named());
        }
        Ok(Some(target))
    }

    /// Starts the log.
    pub(crate) fn start(&self, target: AuditTarget) -> Result<AuditLog> {
        let options = AuditOptions {
            full: self.audit_full,
            patience: PATIENCE,
            is_sync: self.audit_sync,
        };
        Ok(target.start(options)?)
    }
}

fn is_same(directory: &Path, other: &Path) -> bool {
    match (directory.canonicalize(), other.canonicalize()) {
        (Ok(directory), Ok(other)) => directory == other,
        _ => false,
    }
}

/// Whether `directory` is below `above`, at any depth.
pub(crate) fn is_below(directory: &Path, above: &Path) -> bool {
    match (directory.canonicalize(), above.canonicalize()) {
        (Ok(directory), Ok(above)) => directory != above && directory.starts_with(above),
        // A directory is missing: opening it later reports the error.
        _ => false,
    }
}
