use std::{
    io::{Write, stdout},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;
use verimount_names::printable;
use verimount_source::ReadAt;
use verimount_verity::{FileDigest, TreeParams, build_tree};

use crate::{
    Outcome,
    message::say_failed,
    opened::open_source,
    options::{TreeArgs, all_processors},
    progress::bytes_bar,
};

/// Print fs-verity digests of files, as `fsverity digest` does
#[derive(Args)]
pub(crate) struct Digest {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print only the hexadecimal digest
    #[arg(long)]
    compact: bool,
    #[command(flatten)]
    tree_args: TreeArgs,
}

impl Digest {
    pub(crate) fn run(self) -> Result<Outcome> {
        let params = self.tree_args.params();
        let mut outcome = Outcome::Good;
        for file in &self.files {
            let written = match digest(file, &params) {
                Ok(digest) if self.compact => writeln!(stdout(), "{}", digest.digest()),
                Ok(digest) => writeln!(stdout(), "{digest} {}", printable(file)),
                // Continue with the other files after an error.
                Err(error) => {
                    say_failed(&error);
                    outcome = Outcome::Bad;
                    continue;
                }
            };
            if written.is_err() {
                return outcome.reported(written);
            }
        }
        Ok(outcome)
    }
}

fn digest(path: &Path, params: &TreeParams) -> Result<FileDigest> {
    let source = open_source(path)?;
    let bar = bytes_bar(source.size(), "hashing");
    let mut progress = |bytes| {
        bar.inc(bytes);
        ControlFlow::Continue(())
    };
    let built = build_tree(&source, params, all_processors(), &mut (), &mut progress);
    bar.finish_and_clear();
    let descriptor = built.with_context(|| printable(path).to_string())?;
    Ok(descriptor.file_digest())
}
