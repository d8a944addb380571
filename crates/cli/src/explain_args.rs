use std::{
    io::{self, Write, stdout},
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf, absolute},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::{getegid, geteuid, getpid};
use verimount_host::{
    bridge::{
        Caller, Mirror, explain,
        policy::{Access, Policy},
    },
    printable,
};

use crate::Outcome;

/// An open whose decision is explained.
#[derive(Args)]
#[command(next_help_heading = "Explain")]
pub(crate) struct ExplainArgs {
    /// Show how the policy decides an open of this file below SOURCE, and why, without mounting
    #[arg(long, value_name = "PATH", conflicts_with = "directory")]
    explain: Option<PathBuf>,
    /// Open it for writing instead of reading; a file that does not exist is created
    #[arg(long, requires = "explain", conflicts_with = "directory")]
    write: bool,
    /// The user who opens it, by number; default: your own
    #[arg(long, requires = "explain", conflicts_with = "directory")]
    uid: Option<u32>,
    /// The group of who opens it, by number; default: your own
    #[arg(long, requires = "explain", conflicts_with = "directory")]
    gid: Option<u32>,
}

impl ExplainArgs {
    /// Shows how the policy of a mirror of `source` decides.
    pub(crate) fn explain(
        &self,
        source: &Path,
        mirror: &Mirror,
        policy: &Policy,
    ) -> Result<Outcome> {
        let path = self.explain.as_deref().context("no mount point")?;
        let named = || printable(path).to_string();
        let below = below(source, path)?;
        let names = self.names(&source.join(&below)).with_context(named)?;
        let access = if self.write {
            Access::Write
        } else {
            Access::Read
        };
        let explanation = explain(mirror, policy, &below, self.caller(), access);
        let explanation = explanation.with_context(named)?;
        let mut out = stdout();
        let shown = writeln!(out, "{explanation}").and_then(|()| match names {
            None => writeln!(out, "The file would be created."),
            Some(..=1) => Ok(()),
            Some(names) => writeln!(
                out,
                "The file has {names} names: it is denied if the policy denies one that was looked up through the mount."
            ),
        });
        Outcome::Good.reported(shown)
    }

    /// How many names a regular file has; `None` if it would be created.
    fn names(&self, path: &Path) -> Result<Option<u64>> {
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => Ok(Some(found.nlink())),
            Ok(_) => bail!("it is not a regular file: policies apply only to regular files"),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.write => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn caller(&self) -> Caller {
        Caller {
            uid: self.uid.unwrap_or_else(|| geteuid().as_raw()),
            gid: self.gid.unwrap_or_else(|| getegid().as_raw()),
            pid: getpid().as_raw_nonzero().get().cast_unsigned(),
            request: 0,
        }
    }
}

/// The path relative to the source of one that is absolute or relative to the source.
fn below(source: &Path, path: &Path) -> Result<PathBuf> {
    let given = if path.is_absolute() {
        path.strip_prefix(absolute(source)?).ok()
    } else {
        Some(path)
    };
    let names = given.and_then(|given| {
        let steps = given.components();
        let steps = steps.filter(|step| *step != Component::CurDir);
        // Reject `..`: only names lead downwards.
        let names = steps.map(|step| matches!(step, Component::Normal(_)).then_some(step));
        names.collect::<Option<PathBuf>>()
    });
    names.with_context(|| {
        let (path, source) = (printable(path), printable(source));
        format!("{path} is not below {source}")
    })
}
