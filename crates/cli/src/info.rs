mod report;

use std::{
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::{Context, Result};
use clap::Args;
use verimount::{OpenOptions, describe};
use verimount_names::printable;

use self::report::Report;
use crate::{Outcome, options::parse_size};

/// Show what a file is: a sealed file or image, with its digest, or a volume
///
/// Only the descriptor or superblock is read, and nothing is verified: anyone who can change the
/// file can change this information, too.
#[derive(Args)]
pub(crate) struct Info {
    /// The file or block device
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File with the Merkle tree, if it is not at the end of the file or in FILE.verity
    #[arg(long, value_name = "PATH")]
    sidecar: Option<PathBuf>,
    /// Offset of the dm-verity superblock: in the file of --sidecar if given, else in the file
    /// itself
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    hash_offset: Option<u64>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub(crate) fn run(self) -> Result<Outcome> {
        let mut options = OpenOptions::default();
        options.sidecar = self.sidecar.as_deref().map(Into::into);
        options.hash_offset = self.hash_offset;
        let found = describe(&self.file, &options);
        let found = match self.sealed_file() {
            Some(sealed) => found.with_context(|| {
                let (file, sealed) = (printable(&self.file), printable(&sealed));
                format!("{file} may be the seal of {sealed}: run the command with {sealed}")
            })?,
            None => found?,
        };
        let report = Report::new(printable(&self.file).to_string(), &found)?;
        let mut out = stdout().lock();
        Outcome::Good.reported(match self.json {
            true => writeln!(out, "{}", serde_json::to_string_pretty(&report)?),
            false => report.print(&mut out),
        })
    }

    /// The file whose sidecar has this name.
    fn sealed_file(&self) -> Option<PathBuf> {
        let is_sidecar = self.file.extension()? == "verity";
        let sealed = self.file.with_extension("");
        (is_sidecar && sealed.is_file()).then_some(sealed)
    }
}
