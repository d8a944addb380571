use std::{
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::Result;
use clap::Args;
use verimount::digest;
use verimount_names::printable;

use crate::{
    Outcome, interrupt::Interrupt, message::say_failed, options::TreeArgs, progress::with_progress,
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
        let interrupt = Interrupt::watch()?;
        let mut outcome = Outcome::Good;
        for file in &self.files {
            let made = with_progress(&interrupt, |watch| digest(file, &params, watch));
            let written = match made {
                Ok(digest) if self.compact => writeln!(stdout(), "{}", digest.digest()),
                Ok(digest) => writeln!(stdout(), "{digest} {}", printable(file)),
                Err(error) if interrupt.go_on().is_break() => return Err(error.into()),
                // Continue with the other files after an error.
                Err(error) => {
                    let error = error.into();
                    outcome = Outcome::of(&error);
                    say_failed(&error);
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
