mod report;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use serde_json::Value;
use verimount::{Location, OpenOptions, describe};
use verimount_host::{printable, volume};

use self::report::{of_file, of_volume, print};
use crate::{
    Outcome,
    options::{location, parse_size},
    remote::{RegistryArgs, SessionArgs},
};

/// Show what a file is: a sealed file or image, with its digest, or a volume
///
/// Only the descriptor or superblock is read, and nothing is verified: anyone who can change the
/// file can change this information, too.
#[derive(Args)]
pub(crate) struct Info {
    /// The file or block device, the file's URL, or its name in a registry or object store
    #[arg(value_name = "FILE", value_parser = location(), value_hint = ValueHint::AnyPath)]
    file: Location,
    /// File with the Merkle tree, if it is not at the end of the file or in FILE.verity
    #[arg(long, value_name = "PATH", value_parser = location(), value_hint = ValueHint::AnyPath)]
    sidecar: Option<Location>,
    /// Offset of the dm-verity superblock: in the file of --sidecar if given, else in the file
    /// itself
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    hash_offset: Option<u64>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    session: SessionArgs,
}

impl Info {
    pub(crate) fn run(self) -> Result<Outcome> {
        let path = self.file.path();
        if let Some((superblock, size)) = path.map(volume::describe).transpose()?.flatten() {
            return self.report(&of_volume(&self.file.to_string(), &superblock, size));
        }
        let options = OpenOptions::new()
            .sidecar(self.sidecar.clone())
            .hash_offset(self.hash_offset);
        let options = self.session.apply_if(self.file.is_remote(), options)?;
        let found = describe(&self.file, &self.registry.apply(options));
        let found = match self.sealed_file() {
            Some(sealed) => found.with_context(|| {
                let (file, sealed) = (&self.file, printable(&sealed));
                format!("{file} may be the seal of {sealed}: run the command with {sealed}")
            })?,
            None => found?,
        };
        self.report(&of_file(&self.file.to_string(), &found)?)
    }

    fn report(&self, report: &Value) -> Result<Outcome> {
        Outcome::Good.report(self.json.then_some(report), |out| print(out, report))
    }

    /// The file whose sidecar has this name.
    fn sealed_file(&self) -> Option<PathBuf> {
        let file = self.file.path()?;
        let is_sidecar = file.extension()? == "verity";
        let sealed = file.with_extension("");
        (is_sidecar && sealed.is_file()).then_some(sealed)
    }
}
