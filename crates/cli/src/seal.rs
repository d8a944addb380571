use std::{io::Write, path::PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use verimount::{NewSeal, SealFormat, SealOptions, options::dm_verity, seal};
use verimount_host::printable;

use crate::{
    Outcome,
    json::made,
    message::{say, wrong_usage},
    model_args::SignatureArgs,
    options::{TreeArgs, of_size},
    progress::watch,
};

/// Add a Merkle tree to a file of any kind; print its digest, or its root hash for dm-verity
#[derive(Args)]
pub(crate) struct Seal {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Append the tree to the file instead of writing FILE.verity
    ///
    /// If interrupted in any way, the file is unchanged or marked as unfinished: no other command
    /// then reads it as data, and running the same command again completes it.
    #[arg(long, conflicts_with = "model_signature")]
    append: bool,
    /// Replace FILE.verity even if it is signed or not a seal
    #[arg(long, conflicts_with = "append")]
    force: bool,
    /// The kernel's format to use: fs-verity prints the digest, dm-verity the root hash
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::FsVerity)]
    format: Format,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tree_args: TreeArgs,
    /// For dm-verity: block size of the data, 512 to 64K, if different from that of the tree
    #[arg(long, value_name = "SIZE", value_parser = of_size(dm_verity::BlockSize::new))]
    data_block_size: Option<dm_verity::BlockSize>,
    #[command(flatten)]
    signature: SignatureArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    FsVerity,
    DmVerity,
}

impl Seal {
    pub(crate) fn run(self) -> Result<Outcome> {
        let new = seal(&self.file, &self.options()?)?;
        self.note(&new);
        let (file, identity) = (printable(&self.file), &new.identity);
        // In a sidecar, it is at the beginning.
        let offset = new.hash_offset.filter(|_| self.append);
        let json = self.json.then(|| made(file, Some(identity), offset));
        Outcome::Good.report(json, |out| writeln!(out, "{identity} {file}"))
    }

    fn options(&self) -> Result<SealOptions> {
        let params = self.tree_args.params();
        let format = match (self.format, self.data_block_size) {
            (Format::FsVerity, None) => SealFormat::FsVerity(params),
            (Format::FsVerity, Some(_)) => {
                return Err(wrong_usage(
                    "fs-verity uses one block size for data and tree: give only --tree-block-size",
                ));
            }
            (Format::DmVerity, data_block_size) => {
                let mut params = dm_verity::Params::from(params);
                params.data_block_size = data_block_size.unwrap_or(params.data_block_size);
                SealFormat::DmVerity(params)
            }
        };
        Ok(SealOptions {
            format,
            append: self.append,
            replace: self.force,
            model_signature: self.signature.read()?,
            watcher: watch()?,
        })
    }

    fn note(&self, made: &NewSeal) {
        let file = printable(&self.file);
        if made.is_shadowed {
            say(format_args!(
                "note: {file} ends with a seal, which takes precedence over the one beside it"
            ));
        }
        if let Some(data_size) = made.resumed {
            say(format_args!(
                "note: {file}: sealing was interrupted before; the seal of its {data_size} bytes of \
                 data is complete now"
            ));
        }
        if let (true, Some(offset)) = (self.append, made.hash_offset) {
            say(format_args!(
                "note: reading it requires --hash-offset {offset}"
            ));
        }
    }
}
