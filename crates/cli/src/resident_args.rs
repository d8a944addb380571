use anyhow::Result;
use clap::Args;
use verimount::ErrorKind;
use verimount_host::{ResidentFiles, sandbox::Sandbox};

use crate::{message::wrong_usage, options::parse_size};

/// The pattern that stands for all files.
const ALL: &str = "all";

/// The options for files that are kept in memory.
#[derive(Args)]
#[group(skip)]
pub(crate) struct ResidentArgs {
    /// Keep files in memory, verified as a whole when they are first opened, where the kernel itself reads and maps them:
    /// those whose path in the image matches this pattern, such as **/*.safetensors, or all; it can be repeated; requires
    /// root
    #[arg(long, value_name = "GLOB|all", requires = "resident_limit")]
    resident: Vec<String>,
    /// The most memory that they take; those that do not fit are read as without --resident
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "resident")]
    resident_limit: Option<u64>,
}

impl ResidentArgs {
    /// Takes the memory, before rights are given up, and keeps it. `ahead` says whether all of the files are loaded at once.
    pub(crate) fn prepare(
        &self,
        ahead: bool,
        sandbox: &mut Sandbox,
    ) -> Result<Option<ResidentFiles>> {
        let Some(limit) = self.resident_limit else {
            return Ok(None);
        };
        let is_all = |pattern: &String| pattern == ALL;
        let files = match &self.resident[..] {
            [pattern] if is_all(pattern) => ResidentFiles::all(limit),
            patterns if patterns.iter().any(is_all) => {
                return Err(wrong_usage(
                    "--resident all stands for every file: give no pattern beside it",
                ));
            }
            patterns => ResidentFiles::matching(patterns, limit),
        };
        let mut files = files.map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => wrong_usage(format_args!("--resident: {error}")),
            _ => anyhow::Error::from(error).context("--resident"),
        })?;
        files.ahead = ahead;
        sandbox.resident(&files)?;
        Ok(Some(files))
    }
}
